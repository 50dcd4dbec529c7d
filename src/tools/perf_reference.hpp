// SPDX-License-Identifier: BSD-3-Clause
//
// What a fused allreduce must give, by the formulas of xylem_fused.h written out for one row at a time: the sum in
// fp32 and rank order, one rounding after the residual, the norm in fp64. Quantised values and their scales follow
// from the norm that the call itself wrote, bit by bit. Shares no code with the library's epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/perf_model.hpp"

namespace xyl {

// Activations as they lie in memory, and as numbers. Types: xylFloat16, xylBfloat16, xylFloat32.
float load_activation(xylDataType_t type, const std::byte* buffer, std::size_t at);
void store_activation(xylDataType_t type, std::byte* buffer, std::size_t at, float value);
// The value after rounding to the type.
float round_activation(xylDataType_t type, float value);
// How many representable values lie between two numbers of the type, which are `a` and `b` rounded.
std::int64_t steps_between(xylDataType_t type, float a, float b);

// The sum over ranks: rows[r] is rank r's.
std::vector<float> sum_rows(const std::vector<std::vector<float>>& rows);

// sum + residual, rounded.
std::vector<float> add_residual(xylDataType_t type, std::span<const float> sum, std::span<const float> residual);

// The norm in fp64, not rounded. weight: with 1 added already in the Gemma style.
std::vector<double> norm_row(std::span<const float> row, std::span<const float> weight, double eps);

// How far a norm may be from norm_row() rounded, in steps of the type: the library computes in fp32.
std::int64_t norm_tolerance(xylDataType_t type);

// A row's bytes, and its scales as floats (FP8) or e4m3 bytes (NVFP4) in the order of columns.
struct quantised_row {
  std::vector<std::uint8_t> bytes;
  std::vector<float> scales;
  std::vector<std::uint8_t> block_scales;
};
quantised_row quantise_row(xylFusedPattern_t pattern, std::span<const float> norm, float scale);

// The byte of row `token` and 16-element block `block` in the swizzled order.
std::size_t swizzled_at(std::size_t token, std::size_t block, std::size_t hidden);

}  // namespace xyl
