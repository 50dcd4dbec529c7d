// SPDX-License-Identifier: BSD-3-Clause
// Why a rank stops waiting for one that has left.
#include "exec/host_wait.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace xyl::test {
namespace {

// Rank 0 of two, waiting for a peer that has left and wrote `poisoned` before.
xylResult_t reason_after(std::uint64_t poisoned, epoch_t epoch) {
  const auto mine = std::make_unique<control_block>(), peers = std::make_unique<control_block>();
  mine->poisoned.word = poisoned;
  host_wait waits(
      {mine.get(), peers.get()}, 0, {}, [](int) { return true; }, nullptr);
  const std::uint64_t seen = 0;
  EXPECT_FALSE(waits.until([] { return false; }, {{1, phase::header}, 1, epoch}, seen));
  return static_cast<xylResult_t>(poison::code(waits.poison_word()));
}

TEST(host_wait, a_peer_that_has_left_without_a_word_is_lost) { EXPECT_EQ(reason_after(0, 7), xylRemoteError); }

TEST(host_wait, a_peer_that_left_because_calls_differ_is_not_called_dead) {
  EXPECT_EQ(reason_after(poison::pack(xylInvalidUsage, 1, 7), 7), xylInvalidUsage);
  // Found in a later call, which does not concern this one; but the peer is gone.
  const std::uint64_t later = poison::pack(xylInvalidUsage, 1, 8);
  ASSERT_FALSE(poison::concerns(later, 7));
  EXPECT_EQ(reason_after(later, 7), xylInvalidUsage);
}

}  // namespace
}  // namespace xyl::test
