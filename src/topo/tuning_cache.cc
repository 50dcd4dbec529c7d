// SPDX-License-Identifier: BSD-3-Clause
#include "topo/tuning_cache.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "proto/call.hpp"
#include "topo/cache_file.hpp"
#include "topo/export.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t format_version = 1;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t h = text.size();
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    h = mix64((h + 0x9e3779b97f4a7c15ull) ^ word);
  }
  return h;
}

result parse(const std::string& text, const tuning_key& key, tuning& out) {
  json root;
  XYL_TRY(read_json(text, root));
  XYL_TRY(expect_object(root, "the file", {"xylem_tuning", "key", "thresholds", "measured"}));
  std::uint64_t version = 0;
  XYL_TRY(take_whole(root, "xylem_tuning", "the file", 1'000'000, version));
  if (version != format_version) return error(xylInvalidUsage, "has another format");
  if (!root.contains("key") || root["key"] != json_of(key))
    return error(xylInvalidUsage, "was measured on another machine, with another driver or with another library");
  if (root.contains("thresholds")) XYL_TRY(read_thresholds(root["thresholds"], "thresholds", out.thresholds));
  if (!root.contains("measured")) return {};
  XYL_TRY(expect_array(root["measured"], "measured"));
  for (const json& entry : root["measured"]) {
    const std::string where = "measured[" + std::to_string(out.measured.size()) + "]";
    XYL_TRY(expect_object(entry, where, {"collective", "algorithm", "bytes", "us"}));
    std::string what, how;
    measured_time m;
    XYL_TRY(take_text(entry, "collective", where, what));
    XYL_TRY(take_text(entry, "algorithm", where, how));
    XYL_TRY(take_whole(entry, "bytes", where, std::uint64_t{1} << 50, m.bytes));
    XYL_TRY(take_number(entry, "us", where, 0, 1e12, m.us));
    const auto known_what = pattern_named(what);
    const auto known_how = method_named(how);
    if (!known_what || !known_how) return error(xylInvalidUsage, "%s names what does not exist", where.c_str());
    m.what = *known_what;
    m.how = *known_how;
    out.measured.push_back(m);
  }
  return {};
}

}  // namespace

json json_of(const tuning_key& key) {
  return {{"topology", format_text("%016llx", static_cast<unsigned long long>(key.topology))},
          {"driver", key.driver},
          {"acs", key.acs},
          {"gpus", key.gpus},
          {"placement", key.placement},
          {"library", key.library}};
}

tuning_key key_of(const graph& g, const std::string& driver) {
  tuning_key key;
  // How links are trained at this moment is no part of what the machine is; nor is what a reader had to say.
  graph lasting = g;
  lasting.notes.clear();
  for (edge& e : lasting.edges) e.current = {};
  key.topology = hash_of(export_json(lasting));
  key.driver = driver;
  key.acs = "unknown";
  for (const vertex& v : g.vertices)
    if (v.acs_redirect && key.acs != "redirected") key.acs = *v.acs_redirect ? "redirected" : "off";
  for (vertex_id gpu : g.gpus()) key.gpus.push_back(g.vertices[gpu].uuid);
  key.library = XYL_VERSION_CODE;
  return key;
}

std::string file_name_of(const tuning_key& key, const char* what) {
  return format_text(
      "%s-%016llx.json", what,
      static_cast<unsigned long long>(hash_of(json_of(key).dump(-1, ' ', true, json::error_handler_t::replace))));
}

bool load_tuning(const std::string& path, const tuning_key& key, tuning& out, std::string& note) {
  note.clear();
  std::string text;
  tuning read;
  result r = read_own_file(path, text);
  if (!r.ok() && !exists(path)) return false;
  if (r.ok()) r = parse(text, key, read);
  if (!r.ok()) {
    note = "the tuning cache " + path + " is not used: " + r.text();
    return false;
  }
  out = std::move(read);
  return true;
}

result store_tuning(const std::string& path, const tuning_key& key, const tuning& what) {
  json measured = json::array();
  for (const measured_time& m : what.measured)
    measured.push_back(
        {{"collective", name_of(m.what)}, {"algorithm", name_of(m.how)}, {"bytes", m.bytes}, {"us", m.us}});
  const json root = {{"xylem_tuning", format_version},
                     {"key", json_of(key)},
                     {"thresholds", write_thresholds(what.thresholds)},
                     {"measured", measured}};
  return replace_file(path, root.dump(1, ' ', true, json::error_handler_t::replace) + "\n");
}

}  // namespace xyl::topo
