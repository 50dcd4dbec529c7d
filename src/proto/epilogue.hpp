// SPDX-License-Identifier: BSD-3-Clause
//
// The arithmetic of the fused epilogue, element by element and operation by operation. Host, device, one block or
// several, any grid: the same bits, because every fused multiply-add is written out (these files are compiled
// without contraction), square root and division are those of IEEE 754, and sums of squares follow one tree.
//
// The tree: a row is thought of as 16384 elements, zeros behind its end. A range's sum is the sum of its left and
// its right half's; a pair's is x0 * x0 with x1 * x1 added in one fused step. Who holds a piece of a row (2, 4 or 8
// neighbours), a group (32 neighbouring pieces) or a block's part holds a whole subtree, so it does not matter how
// the row is spread. Adding the zeros changes no bit, so they are left out.
//
// There is one rounding to the activation type between the sum and the norm, at the residual (residual_of), and one
// at the norm (normalised); everything downstream uses the rounded values.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "proto/quantise.hpp"

namespace xyl {

inline constexpr unsigned most_hidden = 16384;

// a * b + c, rounded once, for hosts without such an instruction: a loop of it becomes vectors, which the C
// library's function would not. The product is exact in double. So is the sum once its last bit says whether
// anything lies beyond ("round to odd"), as far as rounding to float goes: see Boldo, Melquiond, "Emulation of FMA
// and correctly rounded sums: proved algorithms using rounding to odd", 2008.
inline float multiply_add_in_double(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b), addend = static_cast<double>(c);
  const double sum = product + addend;
  // What the sum lost, exactly (Knuth's two-sum). Not a number where the sum is none, or infinite.
  const double of_addend = sum - product;
  const double lost = (product - (sum - of_addend)) + (addend - of_addend);
  std::uint64_t bits, lost_bits;
  std::memcpy(&bits, &sum, sizeof bits);
  std::memcpy(&lost_bits, &lost, sizeof lost_bits);
  // One step of the last place where the bits are even: away from zero if what was lost has the sum's sign.
  const std::uint64_t step = (~bits & 1) - ((~bits & (bits ^ lost_bits) >> 63) << 1);
  bits += std::fabs(lost) > 0 ? step : 0;
  double odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return static_cast<float>(odd);
}

XYL_FN float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDACC__) || defined(__FMA__) || defined(__AVX512F__) || defined(__FP_FAST_FMAF)
  return std::fma(a, b, c);
#else
  return multiply_add_in_double(a, b, c);
#endif
}

// How the values of two halves of a range become the range's. Words, so that one mechanism carries both.
struct add_squares {
  static XYL_FN std::uint32_t combine(std::uint32_t left, std::uint32_t right) {
    return float_bits(bits_float(left) + bits_float(right));
  }
};
struct larger_magnitude {
  static XYL_FN std::uint32_t combine(std::uint32_t left, std::uint32_t right) {
    return left > right ? left : right;
  }
};

// The tree's value over `count` leaves, zeros behind them. Complete subtrees wait on a stack, the widest first.
template <class Op>
inline std::uint32_t halving(const std::uint32_t* leaf, unsigned count) {
  std::uint32_t waiting[15];
  unsigned depth = 0;
  for (unsigned i = 0; i < count; ++i) {
    std::uint32_t value = leaf[i];
    for (unsigned k = i; k & 1; k >>= 1) value = Op::combine(waiting[--depth], value);
    waiting[depth++] = value;
  }
  if (depth == 0) return 0;
  std::uint32_t value = waiting[--depth];
  while (depth > 0) value = Op::combine(waiting[--depth], value);
  return value;
}

template <int E>
XYL_FN float sum_of_squares(const float (&x)[E]) {
  float part[E / 2];
#pragma unroll
  for (int i = 0; i < E / 2; ++i) part[i] = fused_multiply_add(x[2 * i + 1], x[2 * i + 1], x[2 * i] * x[2 * i]);
#pragma unroll
  for (int width = E / 4; width >= 1; width /= 2)
#pragma unroll
    for (int i = 0; i < width; ++i) part[i] = part[2 * i] + part[2 * i + 1];
  return part[0];
}

template <int E>
XYL_FN std::uint32_t largest_magnitude(const float (&x)[E]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < E; ++i) largest = larger_magnitude::combine(largest, magnitude_bits(x[i]));
  return largest;
}

// inverse_hidden: 1 / hidden, rounded to fp32.
XYL_FN float inverse_root_mean_square(float squares, float inverse_hidden, float eps) {
  const float mean = fused_multiply_add(squares, inverse_hidden, eps);
  return 1.0f / std::sqrt(mean);
}

XYL_FN float normalised(float r, float inverse_rms, float weight) { return r * inverse_rms * weight; }

}  // namespace xyl
