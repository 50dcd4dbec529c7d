// SPDX-License-Identifier: BSD-3-Clause
//
// 16- and 8-bit floating-point formats as pure integer arithmetic: the same bits on every compiler and processor,
// no branch (so loops vectorise), and no dependence on flush-to-zero or denormals-are-zero modes, which a user's
// program may have set. Formats: IEEE 754 binary16; bfloat16; OCP 8-bit FP8 v1.0 (E4M3 has no infinity, one NaN
// pattern per sign, largest value 448; E5M2 is IEEE-like). Rounding is to nearest even; E4M3 and E5M2 saturate to
// the largest finite value, as NVIDIA's conversions with the satfinite modifier do; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/function.hpp"

namespace xyl {

XYL_FN std::uint32_t float_bits(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}

XYL_FN float bits_float(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

// Exponent and Mantissa: widths in bits. Finite: the format has no infinity (E4M3). Saturate: see above.
template <int Exponent, int Mantissa, bool Finite, bool Saturate>
struct small_float {
  static constexpr int bias = (1 << (Exponent - 1)) - 1;
  static constexpr int shift = 23 - Mantissa;
  static constexpr std::uint32_t mantissa_mask = (1u << Mantissa) - 1;
  static constexpr std::uint32_t exponent_mask = ((1u << Exponent) - 1) << Mantissa;
  static constexpr std::uint32_t magnitude_mask = exponent_mask | mantissa_mask;
  static constexpr std::uint32_t largest = Finite ? magnitude_mask - 1 : exponent_mask - 1;
  static constexpr std::uint32_t nan = Finite ? magnitude_mask : exponent_mask | 1u << (Mantissa - 1);
  static constexpr std::uint32_t overflow = Saturate ? largest : exponent_mask;

  static XYL_FN float decode(std::uint32_t x) {
    const std::uint32_t sign = (x & ~magnitude_mask) << (31 - Exponent - Mantissa);
    const std::uint32_t magnitude = x & magnitude_mask;
    const std::uint32_t normal = (magnitude << shift) + (static_cast<std::uint32_t>(127 - bias) << 23);
    // A subnormal is its mantissa times 2^(1 - bias - Mantissa); both factors and the product are normal fp32
    // numbers.
    const std::uint32_t subnormal =
        float_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) *
                   bits_float(static_cast<std::uint32_t>(127 + 1 - bias - Mantissa) << 23));
    const bool is_special = Finite ? magnitude == magnitude_mask : magnitude >= exponent_mask;
    const std::uint32_t special = Finite ? 0x7fc00000u : 0x7f800000u | (magnitude & mantissa_mask) << shift;
    const std::uint32_t finite = magnitude < (1u << Mantissa) ? subnormal : normal;
    return bits_float(sign | (is_special ? special : finite));
  }

  static XYL_FN std::uint32_t encode(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const std::uint32_t sign = bits >> 31 << (Exponent + Mantissa);
    // Normal result: rebias, add half of the last place (minus one where the kept bit is even), drop the rest. A
    // carry moves into the exponent, as it should.
    const std::uint32_t odd = magnitude >> shift & 1;
    const std::uint32_t rounded =
        (magnitude - (static_cast<std::uint32_t>(127 - bias) << 23) + ((1u << (shift - 1)) - 1) + odd) >> shift;
    // Subnormal result: adding a power of two whose last place is the format's smallest step makes the fp32 adder
    // round.
    constexpr std::uint32_t aligner = static_cast<std::uint32_t>(127 + 1 - bias + shift) << 23;
    const std::uint32_t tiny = float_bits(bits_float(magnitude) + bits_float(aligner)) - aligner;
    constexpr std::uint32_t smallest_normal = static_cast<std::uint32_t>(127 + 1 - bias) << 23;
    std::uint32_t result = magnitude < smallest_normal ? tiny : rounded;
    // Beyond the format: bigger than `largest` after rounding, or too big for the rebias to make sense of.
    const bool beyond = result > largest || magnitude >= 0x7f800000u;
    result = magnitude >= smallest_normal && beyond ? overflow : result;
    return sign | (magnitude > 0x7f800000u ? nan : result);
  }
};

using binary16 = small_float<5, 10, false, false>;
using fp8_e4m3 = small_float<4, 3, true, true>;
using fp8_e5m2 = small_float<5, 2, false, true>;

struct bfloat16_format {
  static XYL_FN float decode(std::uint32_t x) { return bits_float(x << 16); }
  static XYL_FN std::uint32_t encode(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    const std::uint32_t quiet = bits >> 16 | 0x40u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
  }
};

}  // namespace xyl
