// SPDX-License-Identifier: BSD-3-Clause
//
// The quantiser with the conversions of the SM where the compiler may use them; elsewhere the portable one, with
// the same bits (a NaN in e4m3 may have another sign). Conversions to e2m1 exist in images for architecture or
// family specific targets only (100a, 103a, 120a, 120f and later).
#pragma once

#include "proto/quantise.hpp"

namespace xyl {

struct cuda_quantiser {
  static __device__ __forceinline__ std::uint32_t e4m3x2(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    std::uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return portable_quantiser::e4m3x2(low, high);
#endif
  }
  static __device__ __forceinline__ std::uint32_t e2m1x2(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && \
    (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
    std::uint32_t word;
    asm("{ .reg .b8 pair; cvt.rn.satfinite.e2m1x2.f32 pair, %1, %2; mov.b32 %0, {pair, pair, pair, pair}; }"
        : "=r"(word)
        : "f"(high), "f"(low));
    return word & 0xff;
#else
    return portable_quantiser::e2m1x2(low, high);
#endif
  }
};

}  // namespace xyl
