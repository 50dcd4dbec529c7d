// SPDX-License-Identifier: BSD-3-Clause
//
// An operation that is known when the test runs.
#pragma once

#include <type_traits>

#include "proto/reduction.hpp"
#include "xylem/xylem.h"

namespace xyl::test {

// Averages are sums until they are divided.
template <class A>
A combine(xylRedOp_t op, A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    if (op == xylBitAnd) return operation::bit_and::combine(a, b);
    if (op == xylBitOr) return operation::bit_or::combine(a, b);
    if (op == xylBitXor) return operation::bit_xor::combine(a, b);
  }
  switch (op) {
    case xylProd:
      return operation::prod::combine(a, b);
    case xylMax:
      return operation::max::combine(a, b);
    case xylMin:
      return operation::min::combine(a, b);
    default:
      return operation::sum::combine(a, b);
  }
}

}  // namespace xyl::test
