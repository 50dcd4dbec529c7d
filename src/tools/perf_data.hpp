// SPDX-License-Identifier: BSD-3-Clause
//
// Test data whose exact result is known, for every type, operation and number of ranks, whatever the order in which
// an algorithm combines: partial results in the element type are exact as well. So a check is equality of bits.
//
// A buffer repeats a pattern of `pattern_length` elements, a prime, so that data displaced by a chunk, a slot or a
// share do not look right. The salt changes from check to check, so that left-over data of the last one do not
// either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xylem/xylem.h"

namespace xyl {

inline constexpr std::size_t pattern_length = 65521;

struct data_key {
  xylDataType_t type;
  xylRedOp_t operation;
  int ranks;
  std::uint64_t salt;
};

// Elements 0..count-1 of what `rank` contributes. Values differ from rank to rank and from element to element; none
// is zero, except for types too narrow for the sum of so many ranks, where some ranks contribute zero to an
// element.
std::vector<std::byte> make_input(const data_key& key, int rank, std::size_t count);

// The same elements reduced over all ranks, in rank order by the definitions of proto/reduction.hpp.
std::vector<std::byte> make_reduced(const data_key& key, std::size_t count);

// The element as text.
std::string element_text(xylDataType_t type, const std::byte* element);

}  // namespace xyl
