// SPDX-License-Identifier: BSD-3-Clause
//
// The two kinds of reduction that kernels are built for: any operation for any number of ranks, chosen at run time,
// and the sum for a constant number of ranks, whose loops unroll. The whole table of types, operations and rank
// counts would be hundreds of megabytes.
#pragma once

#include "kernels/codec_cuda.cuh"
#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl {

template <class T>
struct any_reduction {
  using codec = cuda_codec<T>;
  using element = T;
  using accumulator = typename codec::accumulator;
  static constexpr int ranks = 0;
  static constexpr int per_word = codec::per_word;

  int chosen;  // xylRedOp_t
  std::uint32_t divisor;

  // The operation is chosen once for all elements of a word; all lanes choose alike.
  template <int Count>
  __device__ __forceinline__ void accumulate(accumulator (&acc)[Count], const accumulator (&value)[Count]) const {
    if constexpr (element_traits<accumulator>::is_integer) {
      switch (chosen) {
        case xylBitAnd:
          return each<operation::bit_and>(acc, value);
        case xylBitOr:
          return each<operation::bit_or>(acc, value);
        case xylBitXor:
          return each<operation::bit_xor>(acc, value);
        default:
          break;
      }
    }
    switch (chosen) {
      case xylProd:
        return each<operation::prod>(acc, value);
      case xylMax:
        return each<operation::max>(acc, value);
      case xylMin:
        return each<operation::min>(acc, value);
      default:
        return each<operation::sum>(acc, value);  // xylSum, xylAvg
    }
  }
  __device__ __forceinline__ accumulator finish(accumulator a) const {
    return divisor == 1 ? a : divide(a, divisor);
  }

 private:
  template <class Operation, int Count>
  static __device__ __forceinline__ void each(accumulator (&acc)[Count], const accumulator (&value)[Count]) {
#pragma unroll
    for (int k = 0; k < Count; ++k) acc[k] = Operation::combine(acc[k], value[k]);
  }
};

template <class T, int Ranks>
struct sum_of : reduction<cuda_codec<T>, operation::sum, Ranks> {
  using accumulator = typename cuda_codec<T>::accumulator;
  __device__ __forceinline__ accumulator finish(accumulator a) const { return a; }
};

}  // namespace xyl
