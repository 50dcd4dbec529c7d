// SPDX-License-Identifier: BSD-3-Clause
//
// How large the blocks of the fused kernels are: known to whoever shapes a launch, on every rank alike. Compiles
// with any compiler.
#pragma once

#include "proto/fused_work.hpp"

namespace xyl {

// Whether a form has kernels for elements of so many bytes. Rows of fp32 are rare: what takes other forms a little
// longer has none.
constexpr bool has_fused_kernels(fused_form form, std::size_t element_bytes) {
  return element_bytes != 4 ||
         (form != fused_form::two_shot_packet && form != fused_form::two_shot_slices && !pulls(form));
}

// Whether a form has kernels for so many ranks alone: 2, 4 and 8, where a call of so many is done in that form
// unless somebody says otherwise. Four ranks that quantise take two steps, or packets.
constexpr bool has_fused_kernel_for(fused_form form, int ranks, bool quantises) {
  switch (form) {
    case fused_form::two_shot_packet:
      return ranks == 4 || ranks == 8;
    case fused_form::one_shot:
      return ranks == 2 || (ranks == 4 && !quantises);
    case fused_form::one_shot_pull:
      return ranks == 2;
    case fused_form::two_shot_slices:
      return ranks == 4 && !quantises;
    case fused_form::two_shot:
      return false;  // for residuals that their owners alone have
    default:
      return ranks == 2 || ranks == 4 || ranks == 8;
  }
}

// Whether it has others, for any number of ranks.
constexpr bool has_fused_kernel_for_any(fused_form form) {
  return !pulls(form) && form != fused_form::two_shot_slices;
}

// The ranks that the kernel of a call is made for, or 0: it takes any number.
constexpr int ranks_of_fused_kernel(fused_form form, int ranks, unsigned element_bytes, const fused_work& work) {
  const bool is_possible = element_bytes != 4 && (pulls(form) || work.experts == 0);
  return is_possible && has_fused_kernel_for(form, ranks, quantises(work.pattern)) ? ranks : 0;
}

// The most lanes of a block, and how many blocks of that size fit on a multiprocessor of every generation without
// spills. fixed_ranks: 2, 4, 8, or 0 for a kernel that takes any number. A block of the flagged forms holds 8192
// elements of 16 bits, so that hardly any row needs a second one; 6144 where the number of ranks is no constant.
// One-shot and the forms that pull have room for two such blocks on a multiprocessor: while one meets, the other
// loads.
constexpr unsigned most_fused_lanes(fused_form form, int fixed_ranks) {
  // In packets the lines of all peers are in flight together.
  if (uses_packets(form)) return 256;
  const unsigned lanes = form == fused_form::two_shot ? 512 : 256;
  return fixed_ranks != 0 ? lanes : lanes / 4 * 3;
}
constexpr unsigned fused_blocks_of_multiprocessor(fused_form form) { return form == fused_form::two_shot ? 1 : 2; }
// Pieces of a row that a lane holds at once.
constexpr int fused_pieces_of_lane(fused_form form) {
  return uses_packets(form) ? 1 : form == fused_form::two_shot ? 2 : 4;
}

// The second step of a call in two: a block has a whole row, of which a lane holds up to so many pieces of 16
// bytes. `wide`, for few rows: one piece. A short launch is about as long as its instructions take to be fetched, and
// each of several pieces has instructions of its own; of many rows the lanes would be too many.
enum class rows_spread : bool { narrow, wide };
constexpr unsigned most_lanes_of_rows(rows_spread s) { return s == rows_spread::wide ? 1024 : 512; }
constexpr int pieces_of_row_lane(std::size_t element_bytes, rows_spread s) {
  return s == rows_spread::wide ? 1 : element_bytes == 4 ? 8 : 4;
}
// Whether there are kernels.
constexpr bool has_wide_rows(std::size_t element_bytes) { return element_bytes != 4; }

// The most blocks that share a row: a cluster of every generation that has them.
inline constexpr unsigned most_blocks_of_row = 8;

}  // namespace xyl
