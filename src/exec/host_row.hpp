// SPDX-License-Identifier: BSD-3-Clause
//
// The fused epilogue over whole rows of host memory: for each activation type a few loops, in a table per
// instruction set, chosen once by what the processor has. The arithmetic is that of epilogue.hpp and quantise.hpp,
// operation by operation, so all tables give the same bits, those of a GPU's lanes too. What is here is how a loop
// goes over a row; the protocol is proto/fused.hpp's.
//
// Rows are whole vectors of 8 elements (xylem_fused.h asks for no less). A row's values are fp32, in `x`. Where a
// buffer that is written may be one that is read, it is read and written at the same places only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parameters.hpp"
#include "proto/fused_work.hpp"

namespace xyl {

struct host_row_functions {
  // x = sources[0] + sources[1] + ..., in this order.
  void (*sum)(float* x, const std::byte* const* sources, int count_of_sources, std::size_t elements);
  // out = this rank's addend to a row, made from its experts' outputs and its input.
  void (*mix)(std::byte* out, const fused_work& w, std::uint64_t token);
  // x = x + residual (null: nothing), rounded to the type. Also to `out`, if it is not null.
  void (*round)(float* x, const std::byte* residual, std::byte* out, std::size_t elements);
  // The tree's sum of the squares.
  float (*squares)(const float* x, std::size_t elements);
  // x = x * inverse_rms * weight, rounded to the type. Also to `out`, if it is not null.
  void (*norm)(float* x, const fused_work& w, float inverse_rms, std::byte* out);
  // The row's quantised values, and its scales one after the other (room for scales_of_row() of them; FP8 static:
  // not used).
  void (*quantise)(const float* x, const fused_work& w, float scale, std::byte* values, std::byte* scales);
};

struct host_rows {
  instruction_set isa;
  host_row_functions bfloat16, float16, float32;
};

// The table for a wish; a processor that lacks what was wished for gets the best it has.
const host_rows& choose_host_rows(instruction_set wish);

template <instruction_set Isa>
const host_rows& host_rows_of();

template <>
const host_rows& host_rows_of<instruction_set::baseline>();
template <>
const host_rows& host_rows_of<instruction_set::avx2>();
template <>
const host_rows& host_rows_of<instruction_set::avx512>();

}  // namespace xyl
