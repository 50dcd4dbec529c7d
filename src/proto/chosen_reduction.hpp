// SPDX-License-Identifier: BSD-3-Clause
//
// The reduction whose operation is chosen at run time: the same values as those of reduction.hpp. For machines on
// which code for every type and operation would be too much of it. Integers that differ in nothing but their sign
// share it too, so its integer types are the unsigned ones.
//
// Of two integers the larger or smaller, signed or not, is the unsigned larger one of both with some bits flipped,
// flipped back: the sign bit for signed numbers, and all bits for the smaller. In the same way `and` is `or`.
#pragma once

#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl {

XYL_FN constexpr bool is_signed_integer(int type) {
  return type == xylInt8 || type == xylInt16 || type == xylInt32 || type == xylInt64;
}

// The type whose kernels serve T.
template <class T>
struct stand_in {
  using type = T;
};
template <class T>
requires element_traits<T>::is_integer struct stand_in<T> {
  using type = std::make_unsigned_t<T>;
};
template <class T>
using stand_in_of = typename stand_in<T>::type;

// Codec: of a type that stands in for itself.
template <class Codec>
struct chosen_reduction {
  using codec = Codec;
  using element = typename Codec::element;
  using accumulator = typename Codec::accumulator;
  static constexpr int ranks = 0;
  static constexpr int per_word = Codec::per_word;
  static constexpr bool is_integer = element_traits<accumulator>::is_integer;
  static_assert(std::is_same_v<element, stand_in_of<element>>);

  // type: xylDataType_t of the elements as the user calls them. ranks_of_average: of an average, else 1.
  XYL_FN chosen_reduction(int operation, int type, std::uint32_t ranks_of_average)
      : step_(step_of(operation)), is_signed_(is_signed_integer(type)), divisor_(ranks_of_average) {
    if constexpr (is_integer) {
      constexpr auto ones = static_cast<accumulator>(~accumulator{0});
      if (is_signed_ && step_ == step::larger) flip_ = static_cast<accumulator>(ones ^ ones >> 1);
      if (operation == xylMin || operation == xylBitAnd) flip_ ^= ones;
    }
  }

  // acc[k] = acc[k] op value[k]. The step is chosen once for all of them; all lanes choose alike.
  template <int Count>
  XYL_FN void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
    if constexpr (is_integer) {
      switch (step_) {
        case step::product:
          return each<operation::prod>(acc, value);
        case step::larger:
          return each_flipped<operation::max>(acc, value);
        case step::either:
          return each_flipped<operation::bit_or>(acc, value);
        case step::one_of:
          return each<operation::bit_xor>(acc, value);
        default:
          return each<operation::sum>(acc, value);
      }
    } else {
      switch (step_) {
        case step::product:
          return each<operation::prod>(acc, value);
        case step::larger:
          return each<operation::max>(acc, value);
        case step::smaller:
          return each<operation::min>(acc, value);
        default:
          return each<operation::sum>(acc, value);
      }
    }
  }

  XYL_FN accumulator finish(accumulator a) const {
    if (divisor_ == 1) return a;
    if constexpr (is_integer) {
      // Towards zero, so it is the magnitude that is divided.
      const bool is_negative = is_signed_ && (a >> (8 * sizeof a - 1) & 1) != 0;
      const auto magnitude = static_cast<accumulator>(is_negative ? negated(a) : a);
      const accumulator quotient = divide(magnitude, divisor_);
      return is_negative ? negated(quotient) : quotient;
    } else {
      return divide(a, divisor_);
    }
  }

 private:
  enum class step : std::uint8_t { sum, product, larger, smaller, either, one_of };

  static XYL_FN step step_of(int operation) {
    switch (operation) {
      case xylProd:
        return step::product;
      case xylMax:
        return step::larger;
      case xylMin:
        return is_integer ? step::larger : step::smaller;
      case xylBitAnd:
      case xylBitOr:
        return step::either;
      case xylBitXor:
        return step::one_of;
      default:
        return step::sum;  // and averages
    }
  }
  static XYL_FN accumulator negated(accumulator a) { return static_cast<accumulator>(accumulator{0} - a); }

  template <class Operation, int Count>
  static XYL_FN void each(accumulator (&acc)[Count], const accumulator (&value)[Count]) {
#pragma unroll
    for (int k = 0; k < Count; ++k) acc[k] = Operation::combine(acc[k], value[k]);
  }
  template <class Operation, int Count>
  XYL_FN void each_flipped(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
#pragma unroll
    for (int k = 0; k < Count; ++k)
      acc[k] = static_cast<accumulator>(
          Operation::combine(static_cast<accumulator>(acc[k] ^ flip_), static_cast<accumulator>(value[k] ^ flip_)) ^
          flip_);
  }

  accumulator flip_{};
  step step_;
  bool is_signed_;
  std::uint32_t divisor_;
};

}  // namespace xyl
