// SPDX-License-Identifier: BSD-3-Clause
//
// What a fused call must give, computed another way: the norm in double precision, the quantised formats by
// searching a table of all their values. Only the sum in rank order and the rounding to the activation type, which
// have tests of their own, are the library's.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/call.hpp"
#include "proto/element.hpp"
#include "proto/fused_work.hpp"

namespace xyl::test {

// One call, as all ranks make it.
struct fused_case {
  fused_pattern pattern = fused_pattern::norm;
  std::uint64_t tokens = 1;
  unsigned hidden = 8;
  bool with_residual = true, with_output = true, with_residual_out = true;
  bool weight_is_float = false, gemma = false, residual_sharded = false, in_place = false;
  unsigned experts = 0;  // 0: no mixture
  bool expert_table = true;
  float eps = 1e-6f;
  std::uint64_t seed = 1;
};

template <class T>
float decoded(T x) {
  return element_traits<T>::decode(x);
}

// Values of moderate size; now and then a row of zeros or of large ones.
template <class T>
T fused_value(std::uint64_t seed, std::uint64_t stream, std::uint64_t row, std::uint64_t column) {
  const std::uint64_t h = mix64(mix64(seed * 977 + stream + 1) ^ mix64(row * 65537 + column + 1));
  const std::uint64_t of_row = mix64(seed * 31 + row) % 7;
  const double scale = of_row == 0 ? 0.0 : of_row == 1 ? 40.0 : 1.0;
  const double fraction = (static_cast<double>(h >> 11) * 0x1p-53 - 0.5) * 4;
  return element_traits<T>::encode(static_cast<float>(scale * fraction));
}

inline std::uint64_t stream_of_input(int rank) { return 10u + static_cast<unsigned>(rank); }
inline constexpr std::uint64_t stream_of_residual = 1, stream_of_weight = 2;
inline std::uint64_t stream_of_expert(int rank) { return 100u + static_cast<unsigned>(rank); }

// The rank's expert rows: K rows a token, of which some are another rank's.
inline std::int32_t expert_row_of(const fused_case& f, int rank, std::uint64_t token, unsigned k) {
  const std::uint64_t h = mix64(f.seed * 7 + token * 64 + k + static_cast<unsigned>(rank) * 4096);
  if (h % 3 == 0) return -1;
  if (h % 11 == 0) return static_cast<std::int32_t>(f.tokens * f.experts + h % 5);  // beyond the last row
  return static_cast<std::int32_t>(h % (f.tokens * f.experts));
}
inline float expert_weight_of(const fused_case& f, int rank, std::uint64_t token, unsigned k) {
  const std::uint64_t h = mix64(f.seed * 13 + token * 64 + k + static_cast<unsigned>(rank) * 8192);
  return static_cast<float>(h >> 40) * 0x1p-24f;
}

template <class T>
T addend_of(const fused_case& f, int rank, std::uint64_t token, unsigned column) {
  const T own = fused_value<T>(f.seed, stream_of_input(rank), token, column);
  if (f.experts == 0) return own;
  float x = decoded(own);
  for (unsigned k = 0; k < f.experts; ++k) {
    const std::int32_t row =
        f.expert_table ? expert_row_of(f, rank, token, k) : static_cast<std::int32_t>(k * f.tokens + token);
    if (row < 0 || static_cast<std::uint64_t>(row) >= f.tokens * f.experts) continue;
    const T value = fused_value<T>(f.seed, stream_of_expert(rank), static_cast<std::uint64_t>(row), column);
    x = std::fma(expert_weight_of(f, rank, token, k), decoded(value), x);
  }
  return element_traits<T>::encode(x);
}

// The sum plus the residual, rounded to T: to the bit.
template <class T>
T residual_of(const fused_case& f, int ranks, std::uint64_t token, unsigned column) {
  float sum = decoded(addend_of<T>(f, 0, token, column));
  for (int r = 1; r < ranks; ++r) sum = sum + decoded(addend_of<T>(f, r, token, column));
  if (f.with_residual && f.pattern != fused_pattern::all_reduce)
    sum = sum + decoded(fused_value<T>(f.seed, stream_of_residual, token, column));
  return element_traits<T>::encode(sum);
}

inline double weight_value(const fused_case& f, float weight) {
  return f.gemma ? static_cast<double>(1.0f + weight) : static_cast<double>(weight);
}

// All values of a small format in the order of their codes, by the definition of sign, exponent and mantissa.
inline double small_value(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const double mantissa = code & ((1u << mantissa_bits) - 1);
  const double fraction = mantissa / (1 << mantissa_bits);
  const double size =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
  return code >> (exponent_bits + mantissa_bits) ? -size : size;
}

// The nearest code of [0, last], the even one where two are as near; with the sign of x above it.
inline unsigned nearest_code(float x, unsigned last, int exponent_bits, int mantissa_bits, int bias) {
  const double size = std::fabs(static_cast<double>(x));
  unsigned best = 0;
  double distance = size;
  for (unsigned code = 1; code <= last; ++code) {
    const double d = std::fabs(size - small_value(code, exponent_bits, mantissa_bits, bias));
    if (d < distance || (d == distance && code % 2 == 0)) {
      best = code;
      distance = d;
    }
  }
  return best | (std::signbit(x) ? 1u << (exponent_bits + mantissa_bits) : 0u);
}
inline unsigned nearest_e4m3(float x) { return nearest_code(x, 0x7e, 4, 3, 7); }
inline unsigned nearest_e2m1(float x) { return nearest_code(x, 7, 2, 1, 1); }
inline float e4m3_value(unsigned code) { return static_cast<float>(small_value(code, 4, 3, 7)); }

struct quantised_row {
  std::vector<unsigned char> values;
  std::vector<unsigned char> scales;  // as in the linear layout
};

// From the norm as the library rounded it.
template <class T>
quantised_row quantised_reference(fused_pattern pattern, const std::vector<T>& norm, float scale) {
  quantised_row out;
  const auto largest = [&](std::size_t begin, std::size_t end) {
    float a = 0;
    for (std::size_t i = begin; i < end; ++i) a = std::max(a, std::fabs(decoded(norm[i])));
    return a;
  };
  const auto put_float = [&](float x) {
    unsigned char bytes[4];
    std::memcpy(bytes, &x, 4);
    out.scales.insert(out.scales.end(), bytes, bytes + 4);
  };
  const std::size_t n = norm.size();
  const std::size_t width = pattern == fused_pattern::fp8_per_group  ? 128
                            : pattern >= fused_pattern::nvfp4_linear ? 16
                                                                     : n;
  for (std::size_t begin = 0; begin < n; begin += width) {
    if (pattern >= fused_pattern::nvfp4_linear) {
      const unsigned block = nearest_e4m3(scale * (largest(begin, begin + width) * (1.0f / 6)));
      out.scales.push_back(static_cast<unsigned char>(block));
      const float multiplier = e4m3_value(block) == 0 ? 0 : scale / e4m3_value(block);
      for (std::size_t i = begin; i < begin + width; i += 2)
        out.values.push_back(static_cast<unsigned char>(nearest_e2m1(decoded(norm[i]) * multiplier) |
                                                        nearest_e2m1(decoded(norm[i + 1]) * multiplier) << 4));
      continue;
    }
    float own = scale;
    if (pattern != fused_pattern::fp8_static) {
      own = std::max(largest(begin, begin + width) / 448.0f, 0x1p-126f);
      put_float(own);
    }
    const float multiplier = 1.0f / own;
    for (std::size_t i = begin; i < begin + width; ++i)
      out.values.push_back(static_cast<unsigned char>(nearest_e4m3(decoded(norm[i]) * multiplier)));
  }
  return out;
}

// "" or what is wrong with a norm. `r` is the rounded residual of the row, `weight` the weights as numbers.
//
// Tolerance: the sum of squares is off by at most 15 roundings (13 levels and the pairs) of 2^-24, of which the
// root halves the effect; mean, root, quotient, 1 + weight and two products add six more: below 14 * 2^-24 in all.
// That is far from the last place of fp16 and bf16, so only a value close to halfway can round to the neighbour.
template <class T>
std::string norm_error(const fused_case& f, const std::vector<T>& r, const std::vector<float>& weight,
                       const std::vector<T>& norm) {
  double squares = 0;
  for (const T x : r) squares += static_cast<double>(decoded(x)) * decoded(x);
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(r.size()) + static_cast<double>(f.eps));
  for (std::size_t i = 0; i < r.size(); ++i) {
    const double exact = decoded(r[i]) * inverse * weight_value(f, weight[i]);
    const double allowed = std::fabs(exact) * 14 * 0x1p-24;
    // Both ends of what is allowed, rounded: the result lies between them.
    const float low = decoded(element_traits<T>::encode(static_cast<float>(exact - allowed)));
    const float high = decoded(element_traits<T>::encode(static_cast<float>(exact + allowed)));
    const float got = decoded(norm[i]);
    const float slack = std::is_same_v<T, float> ? std::fabs(got) * 0x1p-23f : 0;
    if (!(got >= low - slack && got <= high + slack))
      return "norm " + std::to_string(i) + " is " + std::to_string(got) + ", not " + std::to_string(exact);
  }
  return "";
}

}  // namespace xyl::test
