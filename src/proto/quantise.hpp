// SPDX-License-Identifier: BSD-3-Clause
//
// The quantised formats of the fused epilogue, to the bit: how a scale is made from a largest magnitude, how values
// are scaled and rounded, and where the scales of the swizzled layout lie. xylem_fused.h states the same for users.
// Conversions here are integer and comparison arithmetic and hold on every machine; a space whose machine has the
// instruction brings a quantiser of its own with the same values (a NaN in e4m3 may have another sign).
//
// Magnitudes are compared as bits: for non-negative floats that is the order of their values, it does not depend on
// the order of comparisons, and a NaN, which is above everything, is not lost.
#pragma once

#include <cstdint>

#include "proto/small_float.hpp"

namespace xyl {

XYL_FN std::uint32_t magnitude_bits(float x) { return float_bits(x) & 0x7fffffffu; }

inline constexpr float e4m3_largest = 448.0f;

// FP8 with a scale of its own: what a quantised 1 stands for. Never below 2^-126, so that its inverse is finite and
// an empty group has one.
XYL_FN float fp8_scale(std::uint32_t largest_magnitude) {
  const float scale = bits_float(largest_magnitude) / e4m3_largest;
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

// NVFP4, OCP microscaling's e2m1 with NVIDIA's e4m3 scales: a value of the block stands for
// q * block scale / global scale.
struct nvfp4_scale {
  std::uint32_t stored;  // e4m3
  float multiplier;      // of the values, before they are rounded to e2m1
};
XYL_FN nvfp4_scale nvfp4_scale_of(float global_scale, std::uint32_t largest_magnitude) {
  const std::uint32_t stored = fp8_e4m3::encode(global_scale * (bits_float(largest_magnitude) * (1.0f / 6.0f)));
  const float block = fp8_e4m3::decode(stored);
  return {stored, block == 0.0f ? 0.0f : global_scale / block};
}

// The byte of row t, block k of 16 columns: tiles of 128 rows x 4 blocks of 512 bytes, the tiles of 128 rows one
// after the other; inside a tile the rows t, t + 32, t + 64, t + 96 lie together in 16 bytes. (The layout of scale
// factors that the block-scaled matrix instructions of SM 100 and 120 load.) tiles: per 128 rows, ceil(hidden /
// 64).
XYL_FN std::uint64_t swizzled_scale_offset(std::uint64_t row, unsigned block, unsigned tiles) {
  return ((row / 128) * tiles + block / 4) * 512 + (row % 32) * 16 + (row / 32 % 4) * 4 + block % 4;
}

struct portable_quantiser {
  // Two values, the first in the low byte.
  static XYL_FN std::uint32_t e4m3x2(float low, float high) {
    return fp8_e4m3::encode(low) | fp8_e4m3::encode(high) << 8;
  }
  // Two values, the first in the low half of the byte.
  static XYL_FN std::uint32_t e2m1x2(float low, float high) { return e2m1(low) | e2m1(high) << 4; }

  // Magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; halfway goes to the even code. A NaN becomes 6, as the instruction has
  // it.
  static XYL_FN std::uint32_t e2m1(float x) {
    const std::uint32_t magnitude = magnitude_bits(x), sign = float_bits(x) >> 31 << 3;
    // As small_float::encode(), for 1 bit of mantissa: below 1 the fp32 adder rounds to halves, else half of the
    // last place is added.
    const std::uint32_t tiny = float_bits(bits_float(magnitude) + 0x1p22f) - float_bits(0x1p22f);
    const std::uint32_t odd = magnitude >> 22 & 1;
    const std::uint32_t rounded = (magnitude - (126u << 23) + ((1u << 21) - 1) + odd) >> 22;
    const std::uint32_t code = magnitude < 127u << 23 ? tiny : rounded < 7 ? rounded : 7;
    return magnitude > 0x7f800000u ? 7u : code | sign;
  }
};

}  // namespace xyl
