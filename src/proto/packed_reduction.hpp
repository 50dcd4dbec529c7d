// SPDX-License-Identifier: BSD-3-Clause
//
// The reduction of integers and of fp64 numbers whose type, too, is chosen at run time: the same values as those
// of reduction.hpp. These are types that are seldom asked for, and one kernel that serves all of them is little more
// to compile and to ship than one of them. What it sees are words of 8 bytes, in which elements lie side by side, and
// to the protocols its elements are bytes: counts of its calls are counts of bytes.
//
// Integers are combined in all places of a word at once, where a carry must not leave its place; so the upper bit
// of each is seen to on its own. Of two integers the smaller, signed or not, is the unsigned larger one of both
// with some bits flipped: the sign bits, and all bits for the smaller. In the same way `and` is `or`.
#pragma once

#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl {

// Of words in which bytes lie, whatever they are parts of.
struct packed_codec {
  using element = std::uint8_t;
  using accumulator = std::uint64_t;
  static constexpr int per_word = 8;

  static XYL_FN void decode(std::uint64_t word, accumulator (&out)[1]) { out[0] = word; }
  static XYL_FN std::uint64_t encode(const accumulator (&in)[1]) { return in[0]; }
};

// What such kernels are made for, in place of a type.
struct packed {};
template <class T>
inline constexpr bool is_packed = element_traits<T>::is_integer || std::is_same_v<T, double>;

class packed_reduction {
 public:
  using codec = packed_codec;
  using element = codec::element;
  using accumulator = codec::accumulator;
  static constexpr int ranks = 0;
  static constexpr int per_word = codec::per_word;
  static constexpr int accumulators = 1;

  // type: xylDataType_t of the elements as the user calls them. ranks_of_average: of an average, else 1.
  XYL_FN packed_reduction(int operation, int type, std::uint32_t ranks_of_average)
      : divisor_(ranks_of_average),
        width_(width_of(type)),
        is_signed_(type == xylInt8 || type == xylInt16 || type == xylInt32 || type == xylInt64),
        step_(step_of(operation, type == xylFloat64)) {
    const std::uint64_t one_of_each = width_ == 64 ? 1 : ~std::uint64_t{0} / ((std::uint64_t{1} << width_) - 1);
    upper_ = one_of_each << (width_ - 1);
    if (is_signed_ && step_ == step::larger) flip_ = upper_;
    if (operation == xylMin || operation == xylBitAnd) flip_ = ~flip_;
  }

  static XYL_FN void decode(std::uint64_t word, accumulator (&out)[1]) { codec::decode(word, out); }
  static XYL_FN std::uint64_t encode(const accumulator (&in)[1]) { return codec::encode(in); }

  // acc[k] = acc[k] op value[k], in all places of the words.
  template <int Count>
  XYL_FN void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
#pragma unroll
    for (int k = 0; k < Count; ++k) acc[k] = combine(acc[k], value[k]);
  }

  XYL_FN accumulator finish(accumulator word) const {
    if (divisor_ == 1) return word;
    if (step_ == step::sum_of_reals) return bits_of(real_of(word) / divisor_);
    accumulator out = 0;
#pragma unroll 1
    for (unsigned at = 0; at < 64; at += width_) {
      // Towards zero, so it is the magnitude that is divided.
      const accumulator one = word >> at & ones();
      const bool is_negative = is_signed_ && one >> (width_ - 1) != 0;
      const accumulator quotient = divide_magnitude((is_negative ? 0 - one : one) & ones());
      out |= ((is_negative ? 0 - quotient : quotient) & ones()) << at;
    }
    return out;
  }

 private:
  enum class step : std::uint8_t {
    sum,
    product,
    larger,
    either,
    one_of,
    sum_of_reals,
    product_of_reals,
    larger_of_reals,
    smaller_of_reals
  };

  static XYL_FN unsigned width_of(int type) {
    switch (type) {
      case xylInt8:
      case xylUint8:
        return 8;
      case xylInt16:
      case xylUint16:
        return 16;
      case xylInt32:
      case xylUint32:
        return 32;
      default:
        return 64;
    }
  }
  static XYL_FN step step_of(int operation, bool is_real) {
    switch (operation) {
      case xylProd:
        return is_real ? step::product_of_reals : step::product;
      case xylMax:
        return is_real ? step::larger_of_reals : step::larger;
      case xylMin:
        return is_real ? step::smaller_of_reals : step::larger;
      case xylBitAnd:
      case xylBitOr:
        return step::either;
      case xylBitXor:
        return step::one_of;
      default:
        return is_real ? step::sum_of_reals : step::sum;  // and averages
    }
  }
  static XYL_FN double real_of(accumulator word) {
    double x;
    std::memcpy(&x, &word, sizeof x);
    return x;
  }
  static XYL_FN accumulator bits_of(double x) {
    accumulator word;
    std::memcpy(&word, &x, sizeof word);
    return word;
  }
  template <class Operation>
  static XYL_FN accumulator combine_reals(accumulator a, accumulator b) {
    return bits_of(Operation::combine(real_of(a), real_of(b)));
  }

  // As many ones as an element has bits.
  XYL_FN accumulator ones() const { return ~accumulator{0} >> (64 - width_); }

  XYL_FN accumulator divide_magnitude(accumulator magnitude) const {
    if (width_ == 64) return magnitude / divisor_;
    return static_cast<std::uint32_t>(magnitude) / divisor_;
  }

  XYL_FN accumulator combine(accumulator a, accumulator b) const {
    switch (step_) {
      case step::product:
        return product(a, b);
      case step::larger:
        return larger(a ^ flip_, b ^ flip_) ^ flip_;
      case step::either:
        return ((a ^ flip_) | (b ^ flip_)) ^ flip_;
      case step::one_of:
        return a ^ b;
      case step::sum_of_reals:
        return combine_reals<operation::sum>(a, b);
      case step::product_of_reals:
        return combine_reals<operation::prod>(a, b);
      case step::larger_of_reals:
        return combine_reals<operation::max>(a, b);
      case step::smaller_of_reals:
        return combine_reals<operation::min>(a, b);
      default:
        return ((a & ~upper_) + (b & ~upper_)) ^ ((a ^ b) & upper_);
    }
  }

  XYL_FN accumulator product(accumulator a, accumulator b) const {
    accumulator out = 0;
#pragma unroll 1
    for (unsigned at = 0; at < 64; at += width_) out |= ((a >> at) * (b >> at) & ones()) << at;
    return out;
  }

  // Unsigned. Where the upper bits are equal, the lower ones say which is the larger: their difference, with an
  // upper bit to borrow from.
  XYL_FN accumulator larger(accumulator a, accumulator b) const {
    const accumulator difference = (a | upper_) - (b & ~upper_);
    const accumulator a_is = ((a & ~b) | (~(a ^ b) & difference)) & upper_;
    const accumulator places_of_a = (a_is << 1) - (a_is >> (width_ - 1));  // all their bits
    return (a & places_of_a) | (b & ~places_of_a);
  }

  accumulator upper_ = 0;  // the upper bit of each element
  accumulator flip_ = 0;
  std::uint32_t divisor_;
  unsigned width_;  // bits of an element
  bool is_signed_;
  step step_;
};

}  // namespace xyl
