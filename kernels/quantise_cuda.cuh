// SPDX-License-Identifier: BSD-3-Clause
//
// The quantiser with the conversions of the SM where the compiler may use them; elsewhere the portable one, with
// the same bits (a NaN in e4m3 may have another sign). Conversions to e2m1 exist in images for architecture or
// family specific targets only (100a, 103a, 120a, 120f and later).
#pragma once

#include "kernels/cuda_space_machine.cuh"
#include "proto/quantise.hpp"

namespace xyl {

struct cuda_quantiser {
  static __device__ __forceinline__ std::uint32_t e4m3x2(float low, float high) {
    if constexpr (machine::converts_e4m3)
      return machine::e4m3x2(low, high);
    else
      return portable_quantiser::e4m3x2(low, high);
  }
  static __device__ __forceinline__ std::uint32_t e2m1x2(float low, float high) {
    if constexpr (machine::converts_e2m1)
      return machine::e2m1x2(low, high);
    else
      return portable_quantiser::e2m1x2(low, high);
  }
};

}  // namespace xyl
