// SPDX-License-Identifier: BSD-3-Clause
//
// The types that kernels are made for: types that are seldom asked for share one. For these there are also fewer
// ways: allreduces do not go in lines of 128 or 16 bytes.
#pragma once

#include "proto/either_float8.hpp"
#include "proto/packed_reduction.hpp"

namespace xyl {

template <class T>
inline constexpr bool is_float8 = std::is_same_v<T, float8_e4m3> || std::is_same_v<T, float8_e5m2>;

// Whether a type has kernels of its own, and so all ways.
template <class T>
inline constexpr bool has_own_kernels =
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> || std::is_same_v<T, float>;
constexpr bool has_all_ways(int type) {  // xylDataType_t
  return type == xylFloat16 || type == xylBfloat16 || type == xylFloat32;
}

// What serves T.
template <class T>
using stand_in_of = std::conditional_t<is_packed<T>, packed, std::conditional_t<is_float8<T>, float8, T>>;

}  // namespace xyl
