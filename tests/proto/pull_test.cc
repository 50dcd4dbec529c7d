// SPDX-License-Identifier: BSD-3-Clause
//
// Every way of using registered buffers in place, with ranks as threads; built with ThreadSanitizer too.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "proto/pull_machine.hpp"
#include "proto/shapes.hpp"

namespace xyl::test {
namespace {

class pulls_of : public of_a_shape {
 protected:
  machine_plan plan(std::uint64_t seed) const {
    machine_plan plan = plan_of(seed);
    plan.bulk_bytes_per_rank = 12'288;  // of the staged form: an input and a share
    return plan;
  }
};

constexpr std::uint64_t most_elements = 700, most_offset = 20;
std::size_t window_bytes(int ranks) { return (most_elements + most_offset) * 8 * static_cast<unsigned>(ranks); }

// All ways in one random order, each time over the last call's data.
TEST_P(pulls_of, bytes_of_every_way_over_the_same_memory) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed * 100 + static_cast<unsigned>(GetParam().ranks)));
    const machine_plan p = plan(seed);
    pull_machine<> machine(p, window_bytes(p.ranks));
    std::vector<pull_plan> calls;
    for (const pull_way how : pull_ways)
      for (const bool in_place : {false, true})
        for (const std::uint64_t most : {std::uint64_t{0}, std::uint64_t{20}, std::uint64_t{300}, most_elements}) {
          if (in_place && !goes_in_place(how)) continue;
          pull_plan c;
          c.how = how;
          c.in_place = in_place;
          c.kind = static_cast<int>(random() % kinds);
          c.count = most == 0 ? 0 : 1 + random() % most;
          c.blocks = 1 + random() % p.blocks;
          c.constant_ranks = random() % 2;
          // In whole units more often than not.
          c.offset = random() % 3 ? 0 : random() % most_offset;
          calls.push_back(c);
        }
    std::shuffle(calls.begin(), calls.end(), random);
    ASSERT_TRUE(machine.run(calls)) << "seed " << seed;
    EXPECT_EQ(machine.check(), "") << "seed " << seed;
  }
}

TEST_P(pulls_of, places_that_differ_touch_no_output) {
  for (const pull_way how : pull_ways) {
    const machine_plan p = plan(1);
    pull_machine<> machine(p, window_bytes(p.ranks));
    pull_plan c;
    c.how = how;
    c.count = 200;
    c.blocks = p.blocks;
    std::vector<pull_plan> calls(2, c);
    calls[1].odd_rank = p.ranks - 1;
    EXPECT_FALSE(machine.run(calls));
    for (int r = 0; r < p.ranks; ++r) {
      // What fill() left there.
      const std::byte* const got = machine.output(r).data();
      EXPECT_TRUE(std::all_of(got, got + c.count * sizeof(float), [](std::byte b) { return b == std::byte{0x77}; }))
          << pull_names[static_cast<int>(how)] << " rank " << r;
      EXPECT_EQ(poison::code(machine.rank(r).control(r).poisoned.word), xylInvalidUsage);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, pulls_of,
                         testing::Values(shape{2, 1, 1}, shape{2, 3, 2}, shape{3, 2, 1}, shape{3, 1, 2},
                                         shape{4, 2, 2}, shape{8, 2, 1}),
                         shape_name);

}  // namespace
}  // namespace xyl::test
