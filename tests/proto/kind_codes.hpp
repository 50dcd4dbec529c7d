// SPDX-License-Identifier: BSD-3-Clause
//
// How the ABI calls a kind's type and operation.
#pragma once

#include "exec/dispatch.hpp"

namespace xyl::test {

struct kind_codes {
  int type = -1;
  int operation = -1;  // xylSum for an average
};

template <class Kind>
constexpr kind_codes codes_of() {
  kind_codes codes;
  element_types::for_each([&](auto entry, int) {
    if (std::is_same_v<typename decltype(entry)::type, typename Kind::element>) codes.type = entry.code;
  });
  reduction_operations::for_each([&](auto entry, int) {
    if (std::is_same_v<typename decltype(entry)::type, typename Kind::combining>) codes.operation = entry.code;
  });
  return codes;
}

}  // namespace xyl::test
