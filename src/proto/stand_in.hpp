// SPDX-License-Identifier: BSD-3-Clause
//
// The types that kernels are made for: types that are seldom asked for share one.
#pragma once

#include "proto/either_float8.hpp"
#include "proto/packed_reduction.hpp"

namespace xyl {

template <class T>
inline constexpr bool is_float8 = std::is_same_v<T, float8_e4m3> || std::is_same_v<T, float8_e5m2>;

// What serves T.
template <class T>
using stand_in_of = std::conditional_t<is_packed<T>, packed, std::conditional_t<is_float8<T>, float8, T>>;

}  // namespace xyl
