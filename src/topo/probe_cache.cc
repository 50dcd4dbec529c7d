// SPDX-License-Identifier: BSD-3-Clause
#include "topo/probe_cache.hpp"

#include <nlohmann/json.hpp>

#include "topo/cache_file.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t format_version = 1;

result parse(const std::string& text, const tuning_key& key, probe_report& out) {
  json root;
  XYL_TRY(read_json(text, root));
  XYL_TRY(expect_object(root, "the file", {"xylem_probe", "key", "probe"}));
  std::uint64_t version = 0;
  XYL_TRY(take_whole(root, "xylem_probe", "the file", 1'000'000, version));
  if (version != format_version) return error(xylInvalidUsage, "has another format");
  if (!root.contains("key") || root["key"] != json_of(key))
    return error(xylInvalidUsage, "was measured on another machine, with another driver or with another library");
  if (!root.contains("probe")) return error(xylInvalidUsage, "has no \"probe\"");
  XYL_TRY(read_probe(root["probe"], out));
  // Nobody stores such a thing.
  return out.veto().empty() ? result() : error(xylInvalidUsage, "holds a veto: %s", out.veto().c_str());
}

}  // namespace

bool load_probe(const std::string& path, const tuning_key& key, probe_report& out, std::string& note) {
  note.clear();
  std::string text;
  probe_report read;
  result r = read_own_file(path, text);
  if (!r.ok() && !exists(path)) return false;
  if (r.ok()) r = parse(text, key, read);
  if (!r.ok()) {
    note = "the kept probe " + path + " is not used: " + r.text();
    return false;
  }
  read.from_cache = true;
  out = std::move(read);
  return true;
}

result store_probe(const std::string& folder, const tuning_key& key, const probe_report& what) {
  XYL_TRY(make_folder(folder));
  const std::string path = folder + "/" + file_name_of(key, "probe");
  probe_report there;
  std::string note;
  if (load_probe(path, key, there, note) && there.gpus.size() > what.gpus.size() && there.proves(what.gpus))
    return {};
  const json root = {{"xylem_probe", format_version}, {"key", json_of(key)}, {"probe", json_of(what)}};
  return replace_file(path, root.dump(1, ' ', true, json::error_handler_t::replace) + "\n");
}

}  // namespace xyl::topo
