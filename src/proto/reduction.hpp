// SPDX-License-Identifier: BSD-3-Clause
//
// The reductions. An operation combines two accumulators; `reduction` joins one with an element type and finishes an
// average. Everything here is exact or rounds once per step in a stated order, so ranks that follow the same order
// hold the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "proto/element.hpp"

namespace xyl {

namespace operation {

// Integers wrap: the arithmetic is done unsigned, wide enough that promotion to int cannot overflow.
template <class T>
using wrapping = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

struct sum {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    if constexpr (element_traits<T>::is_integer)
      return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
    else
      return a + b;
  }
};
struct prod {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    if constexpr (element_traits<T>::is_integer)
      return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
    else
      return a * b;
  }
};
// A NaN gives way to a number, on either side.
struct max {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    return a > b || b != b ? a : b;
  }
};
struct min {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    return a < b || b != b ? a : b;
  }
};
struct bit_and {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct bit_or {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct bit_xor {
  template <class T>
  static XYL_FN T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace operation

// Ranks: their number where it is a compile-time constant, else 0. Codec: see element.hpp.
template <class Codec, class Operation, int Ranks = 0>
struct reduction {
  using codec = Codec;
  using element = typename Codec::element;
  using accumulator = typename Codec::accumulator;
  static constexpr int ranks = Ranks;
  static constexpr int per_word = Codec::per_word;

  // The number of ranks for an average, else 1.
  std::uint32_t divisor = 1;

  XYL_FN accumulator combine(accumulator a, accumulator b) const { return Operation::combine(a, b); }
  XYL_FN accumulator finish(accumulator a) const {
    // Integers divide in 64 bits: the divisor may not fit the element.
    using wide = std::conditional_t<!std::is_integral_v<accumulator>, accumulator,
                                    std::conditional_t<std::is_signed_v<accumulator>, std::int64_t, std::uint64_t>>;
    return divisor == 1 ? a : static_cast<accumulator>(static_cast<wide>(a) / static_cast<wide>(divisor));
  }
};

}  // namespace xyl
