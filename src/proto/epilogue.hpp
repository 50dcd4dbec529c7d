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

#include "proto/quantise.hpp"

namespace xyl {

inline constexpr unsigned most_hidden = 16384;

XYL_FN float fused_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return fmaf(a, b, c);
#else
  return std::fma(a, b, c);
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
#ifdef __CUDA_ARCH__
  return 1.0f / sqrtf(mean);
#else
  return 1.0f / std::sqrt(mean);
#endif
}

XYL_FN float normalised(float r, float inverse_rms, float weight) { return r * inverse_rms * weight; }

}  // namespace xyl
