// SPDX-License-Identifier: BSD-3-Clause
//
// Codecs that use the GPU's conversions where it has them for a type on every generation that we build for:
// binary16 and bfloat16. Values equal those of portable_codec (a NaN may have other payload bits). Everything else
// is portable.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "proto/element.hpp"

namespace xyl {

template <class T>
struct cuda_codec : portable_codec<T> {};

template <>
struct cuda_codec<float16> {
  using element = float16;
  using accumulator = float;
  static constexpr int per_word = 4;

  static __device__ __forceinline__ void decode(std::uint64_t word, float (&out)[4]) {
    __half2 pair[2];
    memcpy(pair, &word, sizeof word);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 value = __half22float2(pair[i]);
      out[2 * i] = value.x;
      out[2 * i + 1] = value.y;
    }
  }
  static __device__ __forceinline__ std::uint64_t encode(const float (&in)[4]) {
    const __half2 pair[2] = {__floats2half2_rn(in[0], in[1]), __floats2half2_rn(in[2], in[3])};
    std::uint64_t word;
    memcpy(&word, pair, sizeof word);
    return word;
  }
};

template <>
struct cuda_codec<bfloat16> {
  using element = bfloat16;
  using accumulator = float;
  static constexpr int per_word = 4;

  // A bfloat16 is the upper half of an fp32 number.
  static __device__ __forceinline__ void decode(std::uint64_t word, float (&out)[4]) {
    const std::uint32_t half[2] = {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      out[2 * i] = __uint_as_float(half[i] << 16);
      out[2 * i + 1] = __uint_as_float(half[i] & 0xffff0000u);
    }
  }
  static __device__ __forceinline__ std::uint64_t encode(const float (&in)[4]) {
    const __nv_bfloat162 pair[2] = {__floats2bfloat162_rn(in[0], in[1]), __floats2bfloat162_rn(in[2], in[3])};
    std::uint64_t word;
    memcpy(&word, pair, sizeof word);
    return word;
  }
};

}  // namespace xyl
