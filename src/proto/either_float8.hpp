// SPDX-License-Identifier: BSD-3-Clause
//
// FP8 of either format, chosen at run time: the values of small_float.hpp (a NaN may have other payload bits). One
// kernel serves both. Unlike there, subnormal fp32 numbers must be numbers: it is for machines whose compiler keeps
// them.
#pragma once

#include "proto/element.hpp"

namespace xyl {

struct float8 {
  std::uint8_t bits;
};

class either_float8 {
 public:
  using element = float8;
  using accumulator = float;
  static constexpr int per_word = 8;

  explicit XYL_FN either_float8(bool is_e5m2)
      : shift_(is_e5m2 ? fp8_e5m2::shift : fp8_e4m3::shift),
        rebias_(static_cast<std::uint32_t>(127 - (is_e5m2 ? fp8_e5m2::bias : fp8_e4m3::bias)) << 23),
        // The first magnitude that is no finite number.
        special_(is_e5m2 ? fp8_e5m2::exponent_mask : fp8_e4m3::magnitude_mask),
        largest_(is_e5m2 ? fp8_e5m2::largest : fp8_e4m3::largest),
        nan_(is_e5m2 ? fp8_e5m2::nan : fp8_e4m3::nan) {}

  XYL_FN void decode(std::uint64_t word, float (&out)[8]) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = decode_one(static_cast<std::uint32_t>(word >> 8 * i) & 0xff);
  }
  XYL_FN std::uint64_t encode(const float (&in)[8]) const {
    std::uint64_t word = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) word |= std::uint64_t{encode_one(in[i])} << 8 * i;
    return word;
  }

 private:
  // The same digits as an fp32 number are too small by a power of two, exactly.
  XYL_FN float decode_one(std::uint32_t x) const {
    const std::uint32_t magnitude = x & 0x7f, sign = x >> 7 << 31;
    const std::uint32_t digits = magnitude << shift_;
    const std::uint32_t finite = float_bits(bits_float(digits) * bits_float(rebias_ + (127u << 23)));
    return bits_float(sign | (magnitude >= special_ ? digits | 0x7f800000u : finite));
  }

  // As small_float::encode(), which says why.
  XYL_FN std::uint32_t encode_one(float value) const {
    const std::uint32_t bits = float_bits(value), magnitude = bits & 0x7fffffffu, sign = bits >> 31 << 7;
    const std::uint32_t smallest_normal = rebias_ + (1u << 23), aligner = smallest_normal + (shift_ << 23);
    const std::uint32_t odd = magnitude >> shift_ & 1;
    const std::uint32_t rounded = (magnitude - rebias_ + ((1u << (shift_ - 1)) - 1) + odd) >> shift_;
    const std::uint32_t tiny = float_bits(bits_float(magnitude) + bits_float(aligner)) - aligner;
    const std::uint32_t result = magnitude < smallest_normal ? tiny : rounded < largest_ ? rounded : largest_;
    return sign | (magnitude > 0x7f800000u ? nan_ : result);
  }

  std::uint32_t shift_, rebias_, special_, largest_, nan_;
};

}  // namespace xyl
