// SPDX-License-Identifier: BSD-3-Clause
//
// How messages between devices are divided: what fits beside what, in a launch and in the workspace.
#include "comm/transfer_shape.hpp"

#include <gtest/gtest.h>

namespace xyl {
namespace {

layout layout_of(unsigned ranks, unsigned blocks) {
  return layout::make(ranks, blocks, 2 << 20, 16 << 20, ranks <= 2 ? 4 << 20 : 2 << 20);
}

TEST(transfer_shape, short_messages_for_all_peers_fit_into_one_launch) {
  for (const unsigned ranks : {2u, 4u, 8u})
    for (const unsigned most : {2 * (ranks - 1), 16u, 33u, 64u}) {
      const transfer_shape shape = shape_of_transfer(2048, layout_of(ranks, 128), most);
      EXPECT_EQ(shape.slot_bytes, 0u);
      EXPECT_LE(shape.blocks * 2 * (ranks - 1), most) << ranks << " ranks";
    }
}

TEST(transfer_shape, long_messages_use_the_whole_launch_and_stay_in_their_region) {
  for (const unsigned ranks : {2u, 3u, 4u, 8u})
    for (const unsigned blocks : {64u, 128u})
      for (unsigned most = 1; most <= blocks; ++most) {
        const layout map = layout_of(ranks, blocks);
        for (std::uint64_t bytes = 1; bytes < 1ull << 40; bytes = bytes * 3 + 1) {
          const transfer_shape shape = shape_of_transfer(bytes, map, most);
          ASSERT_GE(shape.blocks, 1u);
          ASSERT_LE(2u * shape.blocks, most < 2 ? 2 : most);
          if (shape.slot_bytes == 0) {
            ASSERT_LE(shape.blocks, map.pair_blocks);
            continue;
          }
          ASSERT_EQ(shape.slot_bytes % 128, 0u);
          // Behind the last block's slots: the end of the region, or between two ranks of all regions.
          const auto end = [&](unsigned slot, unsigned source) {
            return map.long_slots_offset(slot, source, shape.blocks, shape.slot_bytes);
          };
          ASSERT_LE(end(1, ranks - 1), map.messages);
          ASSERT_LE(end(0, 0), ranks == 2 ? map.messages : map.bulk_offset(0, 1));
        }
        if (most >= 2) {
          EXPECT_EQ(shape_of_transfer(64 << 20, map, most).blocks, most / 2) << ranks << " ranks";
        }
      }
}

TEST(transfer_shape, headers_of_blocks_without_a_ring_lie_beside_their_flag) {
  const layout map = layout_of(2, 128);
  EXPECT_EQ(map.long_header_offset(1, 64) / sizeof(flag),
            map.flag_offset(flag_family::message, 1, 64) / sizeof(flag));
  EXPECT_GE(map.long_header_offset(1, 64), map.flag_offset(flag_family::message, 1, 64) + sizeof(epoch_t));
  EXPECT_LE(map.long_header_offset(1, 64) + sizeof(line), map.flag_offset(flag_family::message, 1, 65));
}

TEST(transfer_shape, two_shots_go_in_steps_from_where_a_block_has_more_than_one) {
  for (const unsigned ranks : {2u, 3u, 4u, 8u})
    for (const unsigned blocks : {1u, 16u, 33u, 64u}) {
      const layout map = layout_of(ranks, 64);
      const std::uint32_t step = two_shot_step(1 << 30, map, blocks);
      ASSERT_GT(step, 0u);
      const std::uint64_t one_step = std::uint64_t{step} * 16 * blocks * ranks;
      EXPECT_EQ(two_shot_step(one_step, map, blocks), 0u);
      EXPECT_EQ(two_shot_step(one_step + 1, map, blocks), step);
      EXPECT_LE(2 * layout::step_places * std::uint64_t{step} * 16 * blocks, map.bulk_stride);
    }
  EXPECT_EQ(two_shot_step(1 << 30, layout_of(1, 64), 64), 0u) << "a copy";
  // Of more ranks the regions are smaller: up to 32 there is room for steps.
  EXPECT_TRUE(can_step(layout_of(32, 64)));
  EXPECT_GT(two_shot_step(1 << 30, layout_of(32, 64), 64), 0u);
  EXPECT_FALSE(can_step(layout_of(64, 64)));
}

TEST(transfer_shape, nobody_to_send_to) {
  EXPECT_EQ(shape_of_transfer(1 << 30, layout_of(1, 128), 64), transfer_shape{});
}

}  // namespace
}  // namespace xyl
