// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks contribute to reductions in tests of the ABI, and what must come out: computed element by element in
// double or in 64-bit integers, from values small enough to be exact there.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "exec/dispatch.hpp"
#include "xylem/xylem.h"

namespace xyl::test {

// Small, rank- and index-dependent; never zero, so that a lost contribution shows in sums and products alike. A
// ring rounds partial sums to the type: there every partial result must be exact, also with two bits of mantissa.
inline int value_of(int rank, std::size_t i) {
  const char* const how = std::getenv("XYLEM_ALGO");
  const bool exact = how != nullptr && std::strcmp(how, "ring") == 0;
  return 1 + static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 3) % (exact ? 2 : 3));
}

template <class T>
T make(int v) {
  if constexpr (requires(T t) { t.bits; })
    return element_traits<T>::encode(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

inline double combine(xylRedOp_t op, double a, int v) {
  const auto whole = static_cast<std::int64_t>(a);
  switch (op) {
    case xylSum:
    case xylAvg:
      return a + v;
    case xylProd:
      return a * v;
    case xylMax:
      return std::fmax(a, v);
    case xylMin:
      return std::fmin(a, v);
    case xylBitAnd:
      return static_cast<double>(whole & v);
    case xylBitOr:
      return static_cast<double>(whole | v);
    case xylBitXor:
      return static_cast<double>(whole ^ v);
    default:
      return NAN;
  }
}

template <class T>
T expected(xylRedOp_t op, int ranks, std::size_t i) {
  double a = value_of(0, i);
  for (int r = 1; r < ranks; ++r) a = combine(op, a, value_of(r, i));
  if (op == xylAvg) {
    if constexpr (element_traits<T>::is_integer) return static_cast<T>(static_cast<std::int64_t>(a) / ranks);
    if constexpr (std::is_same_v<T, double>) return a / ranks;
    // fp32 accumulation, one division, one rounding to the type.
    const float average = static_cast<float>(a) / static_cast<float>(ranks);
    return element_traits<T>::encode(average);
  }
  if constexpr (element_traits<T>::is_integer || std::is_same_v<T, double>)
    return static_cast<T>(a);
  else
    return element_traits<T>::encode(static_cast<float>(a));
}

}  // namespace xyl::test
