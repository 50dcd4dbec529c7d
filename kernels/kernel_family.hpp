// SPDX-License-Identifier: BSD-3-Clause
//
// Choosing one kernel of a family, and listing them, for the tables of kernels. Compiles with any compiler.
#pragma once

#include <vector>

#include "kernels/kernel_table.hpp"

namespace xyl {

// Of kernels for 2, 4 and 8 ranks; -1 for other numbers.
constexpr int index_of_fixed(int ranks) { return ranks == 2 ? 0 : ranks == 4 ? 1 : ranks == 8 ? 2 : -1; }

// Sums are built for these numbers of ranks, where they are.
inline kernel choose_of(const kernel_family& family, xylRedOp_t operation, int ranks) {
  const int fixed = index_of_fixed(ranks);
  if (operation != xylSum || fixed < 0) return family.any;
  const kernel& of_ranks = family.fixed[static_cast<std::size_t>(fixed)];
  return of_ranks.function ? of_ranks : family.any;
}

inline void list_family(const kernel_family& family, std::vector<kernel>& list) {
  if (family.any.function) list.push_back(family.any);
  for (const kernel& fixed : family.fixed)
    if (fixed.function) list.push_back(fixed);
}

}  // namespace xyl
