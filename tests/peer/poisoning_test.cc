// SPDX-License-Identifier: BSD-3-Clause
#include "peer/poisoning.hpp"

#include <gtest/gtest.h>

namespace xyl {
namespace {

TEST(poisoning, first_reason_stays) {
  control_block control{};
  poison_control(control, poison::pack(xylRemoteError, 1));
  poison_control(control, poison::pack(xylTimeout, 2));
  poison_control(control, poison::pack(xylInvalidUsage, 3, 7));
  EXPECT_EQ(control.poisoned.word, poison::pack(xylRemoteError, 1));
}

TEST(poisoning, a_rank_that_dies_after_calls_were_found_to_differ_ends_waits_of_the_call_before) {
  control_block control{};
  const epoch_t good = 100;
  poison_control(control, poison::pack(xylInvalidUsage, 1, next_epoch(good)));
  EXPECT_FALSE(poison::concerns(control.poisoned.word, good));
  poison_control(control, poison::pack(xylInvalidUsage, 2, next_epoch(good)));
  EXPECT_EQ(poison::culprit(control.poisoned.word), 1);
  poison_control(control, poison::pack(xylRemoteError, 3));
  EXPECT_TRUE(poison::concerns(control.poisoned.word, good));
  EXPECT_EQ(poison::culprit(control.poisoned.word), 3);
}

}  // namespace
}  // namespace xyl
