// SPDX-License-Identifier: BSD-3-Clause
//
// How units are divided: contiguous ranges, equal on all ranks because they depend on counts alone. A share belongs
// to a rank, a range to a block; the last ones may be short or empty.
#pragma once

#include <cstdint>

#include "base/function.hpp"

namespace xyl {

struct range {
  std::uint64_t begin;
  std::uint64_t end;
  XYL_FN constexpr std::uint64_t size() const { return end - begin; }
};

// Part `index` of `parts` of [0, total).
XYL_FN constexpr range part_of(std::uint64_t total, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t size = (total + parts - 1) / parts;
  const std::uint64_t begin = index * size < total ? index * size : total;
  return {begin, total - begin < size ? total : begin + size};
}

// Block `s.block()`'s part. A division takes a GPU longer than a load, so its space brings the result along.
template <class S>
XYL_FN range part_of_block(const S& s, std::uint64_t total) {
  if constexpr (requires { s.part(total); })
    return s.part(total);
  else
    return part_of(total, s.blocks(), s.block());
}

XYL_FN constexpr std::uint64_t units_of(std::uint64_t count, std::uint64_t per_unit) {
  return (count + per_unit - 1) / per_unit;
}

}  // namespace xyl
