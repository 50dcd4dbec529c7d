// SPDX-License-Identifier: BSD-3-Clause
//
// Shapes of fused launches: every row finds lanes for all its pieces, no block is empty, nothing is larger than the
// workspace or the device allows; over many shapes.
#include "comm/fused_shape.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/fused_limits.hpp"

namespace xyl {
namespace {

const fused_limits some_limits{{16, 16, 8, 8, 8, 8}, {16, 16, 8, 8, 8, 8}};

fused_work work_of(unsigned hidden, std::uint64_t tokens, std::uint64_t share, fused_pattern pattern) {
  fused_work w;
  w.hidden = hidden;
  w.tokens = tokens;
  w.share = share;
  w.pattern = pattern;
  return w;
}

TEST(FusedShape, EveryShapeFits) {
  int possible = 0, clustered = 0;
  for (const int ranks : {2, 3, 4, 8, 16, 64})
    for (const unsigned element : {2u, 4u})
      for (const unsigned hidden : {8u, 120u, 384u, 2880u, 6144u, 7168u, 8192u, 8200u, 16384u})
        for (const std::uint64_t tokens : {0ull, 1ull, 7ull, 64ull, 5000ull})
          for (const unsigned blocks : {1u, 3u, 8u, 64u})
            for (const bool clusters : {false, true})
              for (const fused_pattern pattern :
                   {fused_pattern::all_reduce, fused_pattern::norm, fused_pattern::fp8_per_group})
                for (const fused_form form :
                     {fused_form::packet, fused_form::two_shot_packet, fused_form::one_shot,
                      fused_form::two_shot_slices, fused_form::two_shot, fused_form::one_shot_pull}) {
                  const layout map = layout::make(static_cast<unsigned>(ranks), 64, 1 << 20, 16 << 20);
                  fused_work w;
                  w.hidden = hidden;
                  w.tokens = tokens;
                  w.share = (tokens + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks);
                  w.pattern = pattern;
                  const unsigned in_clusters = clusters ? (blocks + 1) / 2 : 0;
                  fused_limits limits;
                  std::fill(std::begin(limits.blocks), std::end(limits.blocks), blocks);
                  std::fill(std::begin(limits.clustered), std::end(limits.clustered), in_clusters);
                  const fused_shape s = shape_fused(form, element, ranks, limits, map, w);
                  if (s.blocks == 0) continue;
                  ++possible;
                  clustered += w.is_clustered;
                  const unsigned piece = (uses_packets(form) ? 8 : 16) / element, pieces = hidden / piece;
                  ASSERT_LE(s.blocks, w.is_clustered ? in_clusters : blocks);
                  ASSERT_EQ(s.blocks % w.split, 0u);
                  ASSERT_LE(w.split, most_blocks_of_row);
                  ASSERT_EQ(s.lanes % 32, 0u);
                  ASSERT_LE(s.lanes, 512u);
                  ASSERT_EQ(w.pieces_of_block % 32, 0u);
                  ASSERT_GE(w.pieces_of_block * w.split, pieces);
                  ASSERT_LT(w.pieces_of_block * (w.split - 1u), pieces);
                  ASSERT_GE(s.lanes * static_cast<unsigned>(fused_pieces_of_lane(form)),
                            std::min(w.pieces_of_block, pieces));
                  ASSERT_GE(s.rows, 1u);
                  const std::uint64_t row = std::uint64_t{hidden} * element;
                  if (uses_packets(form)) {
                    // Scattered rows, and norms behind them.
                    ASSERT_LE(s.rows * w.row_line_stride * 8 * (uses_shares(form) ? 2 : 1), map.packet_capacity());
                    ASSERT_LE(scale_width(pattern), 32 * piece);
                  } else if (form == fused_form::one_shot) {
                    ASSERT_LE(s.rows * row, map.bulk_stride);
                  } else if (form == fused_form::two_shot_slices) {
                    ASSERT_EQ(w.split, 1u);
                    ASSERT_LE(s.rows * 2 * row / ranks, map.bulk_stride);
                    ASSERT_LE(s.rows * (pieces / 16) * 4, map.bulk_stride / 2);
                  } else if (form == fused_form::two_shot) {
                    ASSERT_LE(s.rows * (row + w.wire_row_bytes(element)), map.bulk_stride);
                  }
                  if (w.split > 1 && teams_meet(form, w) && !w.is_clustered) {
                    const unsigned shares = uses_shares(form) ? static_cast<unsigned>(ranks) : 1u;
                    ASSERT_LE(s.rows * shares, layout::team_rows);
                  }
                }
  EXPECT_GT(possible, 10000);
  EXPECT_GT(clustered, 1000);
}

TEST(FusedShape, OneTokenIsSpreadOverBlocks) {
  const layout map = layout::make(8, 64, 1 << 20, 16 << 20);
  fused_work w = work_of(7168, 1, 1, fused_pattern::norm);
  const fused_shape s = shape_fused_or_next(fused_form::packet, 2, 8, some_limits, map, w);
  EXPECT_EQ(s.form, fused_form::packet);
  EXPECT_EQ(w.split, 8u);
  EXPECT_TRUE(w.is_clustered);
  EXPECT_EQ(s.blocks, 8u);
}

TEST(FusedShape, WhatPacketsCannotDoTheNextFormDoes) {
  const layout map = layout::make(2, 64, 1 << 20, 16 << 20);
  fused_work w =
      work_of(1024, 1, 1, fused_pattern::fp8_per_group);  // of float: 128 of them are more than a warp's packets
  const fused_shape s = shape_fused_or_next(fused_form::packet, 4, 2, some_limits, map, w);
  EXPECT_EQ(s.form, fused_form::one_shot);
}

TEST(FusedShape, WhatIsPulledStaysSoWhereItCan) {
  const layout map = layout::make(2, 64, 1 << 20, 16 << 20);
  fused_work w = work_of(7168, 32, 16, fused_pattern::norm);
  EXPECT_EQ(shape_fused_or_next(fused_form::one_shot_pull, 2, 2, some_limits, map, w).form,
            fused_form::one_shot_pull);
  // Where not one block of it fits on a device.
  fused_limits without = some_limits;
  without.blocks[static_cast<int>(fused_form::one_shot_pull)] = 0;
  EXPECT_EQ(shape_fused_or_next(fused_form::one_shot_pull, 2, 2, without, map, w).form, fused_form::one_shot);
  // Among more ranks nothing is pulled in this step.
  w.share = 8;
  EXPECT_EQ(
      shape_fused_or_next(fused_form::one_shot_pull, 2, 4, some_limits, layout::make(4, 64, 1 << 20, 16 << 20), w)
          .form,
      fused_form::one_shot);
}

// Whole rows, a block each; longer ones than a block can hold, other ranks and what quantises go in other forms.
TEST(FusedShape, SlicesAreOfRowsThatABlockHolds) {
  const layout map = layout::make(4, 64, 1 << 20, 16 << 20);
  fused_work w = work_of(7168, 32, 8, fused_pattern::norm);
  const fused_shape s = shape_fused(fused_form::two_shot_slices, 2, 4, some_limits, map, w);
  EXPECT_EQ(s.blocks, 8u);
  EXPECT_EQ(w.split, 1u);
  EXPECT_FALSE(w.is_clustered);
  EXPECT_EQ(shape_fused(fused_form::two_shot_slices, 2, 8, some_limits, map, w).blocks, 0u);
  w.hidden = 16384;
  EXPECT_EQ(shape_fused(fused_form::two_shot_slices, 2, 4, some_limits, map, w).blocks, 0u);
  w.hidden = 7168;
  w.pattern = fused_pattern::fp8_static;
  EXPECT_EQ(shape_fused(fused_form::two_shot_slices, 2, 4, some_limits, map, w).blocks, 0u);
}

// Fp32 rows have no kernels in two shots of slices, nor any that pull: the forms behind these do it.
TEST(FusedShape, RowsOfFp32AreHandedOn) {
  const layout map = layout::make(4, 64, 1 << 20, 16 << 20);
  fused_work w = work_of(1024, 8, 2, fused_pattern::norm);
  for (const fused_form form :
       {fused_form::two_shot_packet, fused_form::two_shot_slices, fused_form::one_shot_pull}) {
    for (const int ranks : {2, 4}) EXPECT_EQ(shape_fused(form, 4, ranks, some_limits, map, w).blocks, 0u);
    const fused_form next = form == fused_form::two_shot_slices ? fused_form::two_shot : fused_form::one_shot;
    EXPECT_EQ(shape_fused_or_next(form, 4, 4, some_limits, map, w).form, next);
  }
  for (const fused_form form : {fused_form::packet, fused_form::one_shot, fused_form::two_shot})
    EXPECT_NE(shape_fused(form, 4, 4, some_limits, map, w).blocks, 0u);
}

}  // namespace
}  // namespace xyl
