// SPDX-License-Identifier: BSD-3-Clause
//
// The reduction of floating-point numbers whose operation is chosen at run time: the same values as those of
// reduction.hpp. For machines on which code for every operation would be too much of it. Integers and fp64 have
// packed_reduction.hpp.
#pragma once

#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl {

template <class Codec>
struct chosen_reduction {
  using codec = Codec;
  using element = typename Codec::element;
  using accumulator = typename Codec::accumulator;
  static constexpr int ranks = 0;
  static constexpr int per_word = Codec::per_word;
  static constexpr int accumulators = per_word;
  static_assert(!element_traits<element>::is_integer);

  // ranks_of_average: of an average, else 1. A codec may have its format at run time too.
  XYL_FN chosen_reduction(int operation, std::uint32_t ranks_of_average, const Codec& how = {})
      : step_(step_of(operation)), divisor_(ranks_of_average), codec_(how) {}

  XYL_FN void decode(std::uint64_t word, accumulator (&out)[per_word]) const { codec_.decode(word, out); }
  XYL_FN std::uint64_t encode(const accumulator (&in)[per_word]) const { return codec_.encode(in); }

  // acc[k] = acc[k] op value[k]. The step is chosen once for all of them; all lanes choose alike.
  template <int Count>
  XYL_FN void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
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

  XYL_FN accumulator finish(accumulator a) const { return divisor_ == 1 ? a : divide(a, divisor_); }

 private:
  enum class step : std::uint8_t { sum, product, larger, smaller };

  static XYL_FN step step_of(int operation) {
    switch (operation) {
      case xylProd:
        return step::product;
      case xylMax:
        return step::larger;
      case xylMin:
        return step::smaller;
      default:
        return step::sum;  // and averages
    }
  }

  template <class Operation, int Count>
  static XYL_FN void each(accumulator (&acc)[Count], const accumulator (&value)[Count]) {
#pragma unroll
    for (int k = 0; k < Count; ++k) acc[k] = Operation::combine(acc[k], value[k]);
  }

  step step_;
  std::uint32_t divisor_;
  [[no_unique_address]] Codec codec_;
};

}  // namespace xyl
