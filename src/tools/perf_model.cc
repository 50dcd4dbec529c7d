// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_model.hpp"

#include <algorithm>
#include <iterator>

#include "base/parse.hpp"

namespace xyl {
namespace {

constexpr pattern_info patterns[] = {
    {xylFusedAllReduce, "allreduce", "the sum alone", 8},
    {xylFusedResidualRMSNorm, "rmsnorm", "+ residual + RMSNorm", 8},
    {xylFusedFp8Static, "fp8-static", "and FP8 with a given scale", 8},
    {xylFusedFp8PerToken, "fp8-token", "and FP8 with a scale for each token", 8},
    {xylFusedFp8PerGroup128, "fp8-group", "and FP8 with a scale for each 128 elements", 128},
    {xylFusedNvfp4Linear, "nvfp4", "and NVFP4", 16},
    {xylFusedNvfp4Swizzled128x4, "nvfp4-swizzled", "and NVFP4 with swizzled scales", 16},
};

constexpr model_preset presets[] = {
    {"kimi-k2", 61, 7168},
    {"glm-5", 78, 6144},
};

std::size_t rounded_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple; }

}  // namespace

std::span<const pattern_info> all_patterns() { return patterns; }

const pattern_info& info_of(xylFusedPattern_t pattern) {
  return *std::find_if(std::begin(patterns), std::end(patterns),
                       [&](const pattern_info& p) { return p.pattern == pattern; });
}

std::optional<xylFusedPattern_t> pattern_named(std::string_view name) {
  for (const pattern_info& p : patterns)
    if (equal_ignoring_case(name, p.name)) return p.pattern;
  return std::nullopt;
}

std::string pattern_list() {
  std::string text;
  for (const pattern_info& p : patterns) text += (text.empty() ? "" : ", ") + std::string(p.name);
  return text;
}

std::size_t quantised_bytes(xylFusedPattern_t pattern, std::size_t tokens, std::size_t hidden) {
  if (!quantises(pattern)) return 0;
  return is_nvfp4(pattern) ? tokens * hidden / 2 : tokens * hidden;
}

std::size_t scale_bytes(xylFusedPattern_t pattern, std::size_t tokens, std::size_t hidden) {
  switch (pattern) {
    case xylFusedFp8PerToken:
      return tokens * sizeof(float);
    case xylFusedFp8PerGroup128:
      return tokens * (hidden / 128) * sizeof(float);
    case xylFusedNvfp4Linear:
      return tokens * (hidden / 16);
    case xylFusedNvfp4Swizzled128x4:
      return rounded_up(tokens, 128) * rounded_up(hidden, 64) * 512;
    default:
      return 0;
  }
}

std::span<const model_preset> model_presets() { return presets; }

}  // namespace xyl
