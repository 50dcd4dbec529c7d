// SPDX-License-Identifier: BSD-3-Clause
//
// Enumerations of the C ABI. A caller may have put any number into one, and C++ does not allow what is none of the
// enumerators' range to be read as the enumeration: it is read as a number, and checked first.
#pragma once

#include <cstring>
#include <type_traits>

namespace xyl {

template <class E>
int number_of(const E& given) {
  static_assert(std::is_enum_v<E> && sizeof given == sizeof(int));
  int number;
  std::memcpy(&number, &given, sizeof number);
  return number;
}

}  // namespace xyl
