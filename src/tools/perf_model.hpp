// SPDX-License-Identifier: BSD-3-Clause
//
// What `xylem-perf decode` and `xylem-perf fused` measure: the allreduces of a transformer's layers and what
// follows each of them. Names of patterns and models, sizes of buffers; pure data.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xylem/xylem.h"

namespace xyl {

struct pattern_info {
  xylFusedPattern_t pattern;
  const char* name;
  const char* what;
  std::size_t hidden_multiple;
};

std::span<const pattern_info> all_patterns();
const pattern_info& info_of(xylFusedPattern_t pattern);
std::optional<xylFusedPattern_t> pattern_named(std::string_view name);
std::string pattern_list();

inline bool has_norm(xylFusedPattern_t pattern) { return pattern != xylFusedAllReduce; }
inline bool quantises(xylFusedPattern_t pattern) { return pattern >= xylFusedFp8Static; }
inline bool is_nvfp4(xylFusedPattern_t pattern) { return pattern >= xylFusedNvfp4Linear; }

// Bytes of the quantised rows and of their scales; 0 where there are none.
std::size_t quantised_bytes(xylFusedPattern_t pattern, std::size_t tokens, std::size_t hidden);
std::size_t scale_bytes(xylFusedPattern_t pattern, std::size_t tokens, std::size_t hidden);

// Models by name.
struct model_preset {
  const char* name;
  int layers;
  int hidden;
};
std::span<const model_preset> model_presets();

// What the two subcommands have besides the options of all.
struct model_options {
  std::string preset;  // "": none
  int layers = 61;
  int hidden = 7168;
  std::vector<int> tokens = {1, 2, 4, 8, 16, 32};
  std::vector<xylFusedPattern_t> patterns = {xylFusedResidualRMSNorm};
  bool fused = true;
  bool unfused = true;
  bool gemma_style = false;
  bool fp32_weight = false;
};

}  // namespace xyl
