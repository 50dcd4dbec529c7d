// SPDX-License-Identifier: BSD-3-Clause
//
// The reductions. An operation combines two accumulators; `reduction` joins one with an element type and finishes
// an average. Everything here is exact or rounds once per step in a stated order, so ranks that follow the same
// order hold the same bits.
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

// For averages. Integers divide towards zero, in a type that holds the divisor too.
template <class T>
XYL_FN T divide(T a, std::uint32_t divisor) {
  if constexpr (!std::is_integral_v<T>)
    return a / static_cast<T>(divisor);
  else if constexpr (sizeof(T) == 8)
    return static_cast<T>(a / static_cast<T>(divisor));
  else if constexpr (std::is_signed_v<T>)  // a number of ranks is far below 2^31
    return static_cast<T>(static_cast<std::int32_t>(a) / static_cast<std::int32_t>(divisor));
  else
    return static_cast<T>(static_cast<std::uint32_t>(a) / divisor);
}

// Ranks: their number where it is a compile-time constant, else 0. Codec: see element.hpp.
template <class Codec, class Operation, int Ranks = 0>
struct reduction {
  using codec = Codec;
  using element = typename Codec::element;
  using accumulator = typename Codec::accumulator;
  static constexpr int ranks = Ranks;
  static constexpr int per_word = Codec::per_word;
  static constexpr int accumulators = per_word;  // that a word takes

  // The number of ranks for an average, else 1.
  std::uint32_t divisor = 1;

  static XYL_FN void decode(std::uint64_t word, accumulator (&out)[per_word]) { Codec::decode(word, out); }
  static XYL_FN std::uint64_t encode(const accumulator (&in)[per_word]) { return Codec::encode(in); }
  XYL_FN accumulator combine(accumulator a, accumulator b) const { return Operation::combine(a, b); }
  // acc[k] = acc[k] op value[k]: what the protocols call, so that an operation chosen at run time is chosen once.
  template <int Count>
  XYL_FN void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
#pragma unroll
    for (int k = 0; k < Count; ++k) acc[k] = combine(acc[k], value[k]);
  }
  XYL_FN accumulator finish(accumulator a) const { return divisor == 1 ? a : divide(a, divisor); }
};

}  // namespace xyl
