// SPDX-License-Identifier: BSD-3-Clause
#include "topo/tuning_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/unique_fd.hpp"
#include "proto/call.hpp"
#include "topo/export.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t format_version = 1;
constexpr std::size_t largest_file = std::size_t{1} << 20;

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t h = text.size();
  for (std::size_t at = 0; at < text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min<std::size_t>(8, text.size() - at));
    h = mix64((h + 0x9e3779b97f4a7c15ull) ^ word);
  }
  return h;
}

json json_of(const tuning_key& key) {
  return {{"topology", format_text("%016llx", static_cast<unsigned long long>(key.topology))},
          {"driver", key.driver},
          {"acs", key.acs},
          {"gpus", key.gpus},
          {"library", key.library}};
}

// Whoever can write the file decides how fast this program's collectives are, no more; still, only the user's own
// file, or the administrator's, is believed.
result read_own_file(const std::string& path, std::string& out) {
  // Without O_NONBLOCK the opening of a named pipe would wait.
  const unique_fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return system_error("cannot be opened");
  struct stat about;
  if (fstat(fd.get(), &about) != 0) return system_error("cannot be looked at");
  if (!S_ISREG(about.st_mode)) return error(xylSystemError, "is not a regular file");
  if (about.st_uid != geteuid() && about.st_uid != 0) return error(xylSystemError, "belongs to another user");
  if ((about.st_mode & S_IWOTH) != 0) return error(xylSystemError, "can be written by everybody");
  if (static_cast<std::uint64_t>(about.st_size) > largest_file) return error(xylSystemError, "is too large");
  out.resize(static_cast<std::size_t>(about.st_size));
  std::size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = read(fd.get(), out.data() + have, out.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("cannot be read");
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  out.resize(have);
  return {};
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

result write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("writing the tuning cache");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace

tuning_key key_of(const graph& g, const std::string& driver) {
  tuning_key key;
  key.topology = hash_of(export_json(g));
  key.driver = driver;
  key.acs = "unknown";
  for (const vertex& v : g.vertices)
    if (v.acs_redirect && key.acs != "redirected") key.acs = *v.acs_redirect ? "redirected" : "off";
  for (vertex_id gpu : g.gpus()) key.gpus.push_back(g.vertices[gpu].uuid);
  key.library = XYL_VERSION_CODE;
  return key;
}

std::string file_name_of(const tuning_key& key) {
  return format_text(
      "tuning-%016llx.json",
      static_cast<unsigned long long>(hash_of(json_of(key).dump(-1, ' ', true, json::error_handler_t::replace))));
}

bool load_tuning(const std::string& path, const tuning_key& key, tuning& out, std::string& note) {
  note.clear();
  std::string text;
  tuning read;
  result r = read_own_file(path, text);
  if (!r.ok() && access(path.c_str(), F_OK) != 0 && errno == ENOENT) return false;
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
  const std::string text = root.dump(1, ' ', true, json::error_handler_t::replace) + "\n";

  // A name of its own beside the file, so that two processes never write the same one and rename stays on one disk.
  std::string temporary = path + ".XXXXXX";
  unique_fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) return system_error("creating %s", temporary.c_str());
  result r = write_all(fd.get(), text);
  // The data has to be on the disk before the name is: a crash must not leave an empty file under it.
  if (r.ok() && (fchmod(fd.get(), 0644) != 0 || fsync(fd.get()) != 0))
    r = system_error("writing %s", temporary.c_str());
  if (r.ok() && rename(temporary.c_str(), path.c_str()) != 0) r = system_error("replacing %s", path.c_str());
  if (!r.ok()) unlink(temporary.c_str());
  return r;
}

}  // namespace xyl::topo
