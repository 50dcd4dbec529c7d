// SPDX-License-Identifier: BSD-3-Clause
//
// Codecs that use the GPU's conversions where it has them for a type on every generation that we build for:
// binary16 and bfloat16. Values equal those of portable_codec (a NaN may have other payload bits). Everything else
// is portable. The toolkit's headers for these types are not used: they take as long to compile as a kernel.
#pragma once

#include "kernels/cuda_space_machine.cuh"
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
    machine::decode_f16x2(static_cast<std::uint32_t>(word), out[0], out[1]);
    machine::decode_f16x2(static_cast<std::uint32_t>(word >> 32), out[2], out[3]);
  }
  static __device__ __forceinline__ std::uint64_t encode(const float (&in)[4]) {
    return machine::f16x2(in[0], in[1]) | std::uint64_t{machine::f16x2(in[2], in[3])} << 32;
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
    return pair(in[0], in[1]) | std::uint64_t{pair(in[2], in[3])} << 32;
  }

 private:
  static __device__ __forceinline__ std::uint32_t pair(float low, float high) {
    if constexpr (machine::converts_bf16)
      return machine::bf16x2(low, high);
    else
      return bfloat16_format::encode(low) | bfloat16_format::encode(high) << 16;
  }
};

}  // namespace xyl
