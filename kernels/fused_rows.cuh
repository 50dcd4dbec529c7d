// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the second step of a fused call in two (proto/fused_rows.hpp); instantiated per type by
// kernels/fused_one_shot_*.cu, those that do not quantise by kernels/fused_plain_*.cu, and all of fp32 in
// kernels/fused_float32.cu.
#pragma once

#include "kernels/codec_cuda.cuh"
#include "kernels/fused_limits.hpp"
#include "kernels/fused_space.cuh"
#include "kernels/fused_table.hpp"
#include "kernels/quantise_cuda.cuh"
#include "proto/fused_rows.hpp"

namespace xyl {

using rows_arguments = fused_arguments<argument_capacity(2)>;
template <class T, rows_spread Spread>
using rows_space = fused_space<argument_capacity(2), pieces_of_row_lane(sizeof(T), Spread), false, true>;

// Registers for twice as many rows at once, where that is enough.
template <class T, bool Quantises, rows_spread Spread>
inline constexpr int blocks_of_rows = Quantises || sizeof(T) == 4 || Spread == rows_spread::wide ? 1 : 2;

template <class T, bool Quantises, rows_spread Spread>
__global__ void __launch_bounds__(most_lanes_of_rows(Spread), blocks_of_rows<T, Quantises, Spread>)
    fused_rows_kernel(const __grid_constant__ rows_arguments given) {
  using kind = fused_kind<cuda_codec<T>, cuda_quantiser, 2, false, Quantises>;
  __shared__ fused_state state;
  rows_space<T, Spread> space(given, state);
  space.begin_alone();
  fused_rows<kind, 2>(space, given.what, given.work);
}

template <class T, bool Quantises, rows_spread Spread>
kernel rows_kernel_of() {
  return {reinterpret_cast<const void*>(fused_rows_kernel<T, Quantises, Spread>), most_lanes_of_rows(Spread),
          argument_capacity(2)};
}

}  // namespace xyl
