// SPDX-License-Identifier: BSD-3-Clause
// Thresholds that were measured once on a machine, kept for later runs. One small JSON file for one key; it is
// replaced as a whole and atomically, so that a reader sees an old one or a new one. A file that is missing, cut
// off, somebody else's or of another machine, driver or library is not used, and a note says why: the cache can
// make a start faster and never make it fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "topo/graph.hpp"
#include "topo/plan_file.hpp"

namespace xyl::topo {

struct tuning_key {
  std::uint64_t topology = 0;     // hash of the graph as exported, without what changes by itself
  std::string driver;             // as NVML prints it; "" if unknown
  std::string acs;                // "redirected", "off" or "unknown"
  std::vector<std::string> gpus;  // UUIDs by address; "" where unknown
  std::string placement;          // whatever else it depends on: which ranks are where
  std::uint32_t library = 0;      // XYL_VERSION_CODE
  bool operator==(const tuning_key&) const = default;
};
[[nodiscard]] tuning_key key_of(const graph& g, const std::string& driver);
[[nodiscard]] json json_of(const tuning_key& key);
// "tuning-0123456789abcdef.json": of this key, in whatever folder the cache is.
[[nodiscard]] std::string file_name_of(const tuning_key& key, const char* what = "tuning");

struct measured_time {
  pattern what = pattern::all_reduce;
  method how = method::one_shot;
  std::uint64_t bytes = 0;
  double us = 0;
  bool operator==(const measured_time&) const = default;
};

struct tuning {
  prescribed_thresholds thresholds;
  std::vector<measured_time> measured;
};

// False: nothing was read, out is untouched, note says why ("" if there simply is no file).
[[nodiscard]] bool load_tuning(const std::string& path, const tuning_key& key, tuning& out, std::string& note);

// The folder must exist. Errors (xylSystemError): it cannot be written to; an older file is then still whole.
result store_tuning(const std::string& path, const tuning_key& key, const tuning& what);

}  // namespace xyl::topo
