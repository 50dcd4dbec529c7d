// SPDX-License-Identifier: BSD-3-Clause
//
// The two kinds of reduction that kernels are built for: any operation for any number of ranks, chosen at run time,
// as is the type where it stands for several; and the sum for a constant number of ranks, whose loops unroll. The
// whole table of types, operations and rank counts would be hundreds of megabytes.
#pragma once

#include "kernels/codec_cuda.cuh"
#include "proto/call.hpp"
#include "proto/chosen_reduction.hpp"
#include "proto/stand_in.hpp"

namespace xyl {

// divisor: of an average, else 1.
template <class T>
__device__ __forceinline__ auto any_reduction(int operation, int type, std::uint32_t divisor) {
  if constexpr (std::is_same_v<T, packed>)
    return packed_reduction(operation, type, divisor);
  else if constexpr (std::is_same_v<T, float8>)
    return chosen_reduction<either_float8>(operation, divisor, either_float8(type == xylFloat8e5m2));
  else
    return chosen_reduction<cuda_codec<T>>(operation, divisor);
}
template <class T>
__device__ __forceinline__ auto any_reduction(const call_record& record, int ranks) {
  return any_reduction<T>(record.operation, record.type,
                          record.operation == xylAvg ? static_cast<std::uint32_t>(ranks) : 1);
}

template <class T, int Ranks>
struct sum_of : reduction<cuda_codec<T>, operation::sum, Ranks> {
  using accumulator = typename cuda_codec<T>::accumulator;
  __device__ __forceinline__ accumulator finish(accumulator a) const { return a; }
};

}  // namespace xyl
