// SPDX-License-Identifier: BSD-3-Clause
//
// How the rows of a fused call are cut into slices, one for each rank, so that every rank sums as much as any other,
// however few the rows are. A slice is whole groups of so many pieces: subtrees of the row's tree of squares, which
// its owner works out. Rank p owns groups [p * groups, (p + 1) * groups), as far as a row has them.
#pragma once

#include "base/function.hpp"

namespace xyl {

struct row_slices {
  unsigned pieces, width, groups;  // of a row; of a group: a power of two up to 32; of a slice

  XYL_FN constexpr row_slices(unsigned pieces_of_row, int ranks, unsigned width_of_group)
      : pieces(pieces_of_row),
        width(width_of_group),
        groups((all_groups() + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks)) {}

  XYL_FN constexpr unsigned all_groups() const { return (pieces + width - 1) / width; }
  // Pieces of a slice, and the first of rank p's; those past the row's end are none.
  XYL_FN constexpr unsigned slice() const { return groups * width; }
  XYL_FN constexpr unsigned begin(int p) const { return static_cast<unsigned>(p) * slice(); }
  XYL_FN constexpr int owner(unsigned piece) const { return static_cast<int>(piece / slice()); }
};

}  // namespace xyl
