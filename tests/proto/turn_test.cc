// SPDX-License-Identifier: BSD-3-Clause
//
// The turn word against the plain description: a counter of launches, whatever the grids and the order of the
// blocks.
#include "proto/turn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace xyl::test {
namespace {

TEST(turn, counts_launches_of_mixed_grids_in_any_block_order) {
  std::mt19937 random(1);
  std::uint64_t word = 0;
  epoch_t epoch = epoch_zero;
  for (int launch = 0; launch < 1000; ++launch) {
    epoch = next_epoch(epoch);
    const unsigned blocks = 1 + random() % turn::most_blocks;
    std::vector<unsigned> order(blocks);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    unsigned left = 0;
    for (unsigned entered = 0; entered < blocks; ++entered) {
      EXPECT_EQ(turn::epoch(word), epoch);
      EXPECT_FALSE(turn::is_busy(word));
      EXPECT_EQ(turn::inside(word), entered - left);
      word += turn::enter_weight(order[entered], blocks);
      // The only block of the launch so far may leave before the next one enters.
      if (random() % 4 == 0) word += turn::leave_weight, ++left;
    }
    for (; left < blocks; ++left) word += turn::leave_weight;
  }
}

TEST(turn, notices_a_launch_that_begins_inside_another) {
  std::uint64_t word = turn::before(100);
  for (unsigned block : {0u, 1u, 2u}) word += turn::enter_weight(block, 3);
  EXPECT_TRUE(turn::is_busy(word));
  word += 2 * turn::leave_weight;
  EXPECT_TRUE(turn::is_busy(word));
  word += turn::leave_weight;
  EXPECT_FALSE(turn::is_busy(word));
}

TEST(turn, skips_the_epochs_that_fresh_memory_could_be_mistaken_for) {
  std::uint64_t word = turn::before(0xfffffffdu);
  epoch_t epoch = 0xfffffffdu;
  for (int launch = 0; launch < 5; ++launch) {
    EXPECT_EQ(turn::epoch(word), epoch);
    word += turn::enter_weight(0, 1) + turn::leave_weight;
    epoch = next_epoch(epoch);
  }
  EXPECT_EQ(turn::before(turn::epoch(word)), word);
}

TEST(turn, numbers_every_launch_of_seventeen_years) {
  constexpr std::uint64_t last = (1ull << 48) - 1, per_half = 0xfffffffeull;
  for (std::uint64_t around : {per_half, 2 * per_half, 1000 * per_half, 65'536 * per_half, last - 3})
    for (std::uint64_t index = around - 3; index <= around + 3 && index <= last; ++index) {
      const epoch_t epoch = turn::epoch(index << 16);
      EXPECT_EQ(epoch, (index / per_half) << 32 | (index % per_half + 2));
      EXPECT_EQ(turn::before(epoch), index << 16);
    }
}

}  // namespace
}  // namespace xyl::test
