// SPDX-License-Identifier: BSD-3-Clause
//
// The self-test of sync paths with ranks as threads: every path passes where nothing is planted, whatever was tried
// before, and every fault that a path is planted with is found by every rank in bounded time. Under ThreadSanitizer
// also that the test itself orders what it reads.
#include <gtest/gtest.h>

#include "exec/trial_machine.hpp"

namespace xyl::test {
namespace {

constexpr std::uint64_t long_ns = 60'000'000'000, short_ns = 300'000'000;

trial_plan plan_of(sync_path path, std::uint32_t begin, std::uint64_t limit_ns = long_ns) {
  trial_plan plan;
  plan.what.path = path;
  plan.begin = begin;
  plan.what.rounds = 6;
  plan.what.launches = 4;
  plan.what.limit_ns = limit_ns;
  plan.meeting_ns = long_ns;
  return plan;
}

class trials : public testing::TestWithParam<std::pair<int, unsigned>> {};

TEST_P(trials, every_path_passes_in_any_order) {
  trial_machine machine(GetParam().first, GetParam().second);
  machine.on_all_ranks([&](int rank) {
    std::uint32_t begin = 1;
    for (int times = 0; times < 2; ++times)
      for (int path = 0; path < sync_paths; ++path, begin += 100) {
        const trial_finding f = machine.attempt(rank, plan_of(static_cast<sync_path>(path), begin));
        EXPECT_EQ(f.verdict, trial_verdict::passed) << path << " rank " << rank << " of " << f.peer;
        if (machine.ranks() > 1) {
          EXPECT_GT(f.round_ns, 0u);
          EXPECT_GT(f.launch_ns, 0u);
        }
      }
  });
}

INSTANTIATE_TEST_SUITE_P(shapes, trials,
                         testing::Values(std::pair{1, 2u}, std::pair{2, 1u}, std::pair{2, 3u}, std::pair{3, 2u},
                                         std::pair{4, 1u}));

TEST(trial, a_path_that_never_completes_ends_at_its_limit_and_the_next_one_passes) {
  for (int path = 0; path < sync_paths; ++path) {
    path_faults faults;
    faults.of[path] = path_fault::never;
    trial_machine machine(2, 2, faults);
    machine.on_all_ranks([&](int rank) {
      const auto begin = std::chrono::steady_clock::now();
      const trial_finding f = machine.attempt(rank, plan_of(static_cast<sync_path>(path), 1, short_ns));
      const auto took = std::chrono::steady_clock::now() - begin;
      EXPECT_EQ(f.verdict, trial_verdict::late) << path;
      EXPECT_EQ(f.peer, 1 - rank);
      EXPECT_EQ(f.round, 0u);
      // Once, not once a launch.
      EXPECT_GE(took, std::chrono::nanoseconds(short_ns));
      EXPECT_LT(took, std::chrono::seconds(20));
      const auto other = static_cast<sync_path>((path + 1) % sync_paths);
      EXPECT_EQ(machine.attempt(rank, plan_of(other, 100)).verdict, trial_verdict::passed) << path;
    });
  }
}

TEST(trial, lost_bits_are_found_and_said) {
  for (int path = 0; path < sync_paths; ++path) {
    path_faults faults;
    faults.of[path] = path_fault::corrupt;
    trial_machine machine(3, 2, faults);
    machine.on_all_ranks([&](int rank) {
      const trial_finding f = machine.attempt(rank, plan_of(static_cast<sync_path>(path), 7));
      EXPECT_EQ(f.verdict, trial_verdict::wrong_data) << path;
      EXPECT_NE(f.peer, rank);
      EXPECT_EQ(f.round, 0u);
      EXPECT_EQ(f.wanted, trial_word(7, f.peer, rank, f.word));
      EXPECT_NE(f.wanted, f.seen);
    });
  }
}

TEST(trial, a_slow_path_passes_and_its_time_says_so) {
  for (int path = 0; path < sync_paths; ++path) {
    path_faults faults;
    faults.of[path] = path_fault::slow;
    trial_machine machine(2, 2, faults);
    machine.on_all_ranks([&](int rank) {
      trial_plan plan = plan_of(static_cast<sync_path>(path), 1);
      plan.what.rounds = 2;
      const trial_finding f = machine.attempt(rank, plan);
      EXPECT_EQ(f.verdict, trial_verdict::passed) << path;
      EXPECT_GE(f.round_ns, 25'000'000u) << path;
    });
  }
}

TEST(trial, a_peer_that_does_not_begin_is_named) {
  trial_machine machine(2, 2);
  trial_plan plan = plan_of(sync_path::packet, 1);
  plan.meeting_ns = short_ns;
  const trial_finding f = machine.attempt(0, plan);
  EXPECT_EQ(f.verdict, trial_verdict::absent);
  EXPECT_EQ(f.peer, 1);
}

TEST(trial, words_differ_from_each_other_and_never_look_like_packets) {
  std::vector<std::uint64_t> all;
  for (std::uint32_t n : {1u, 2u, 4096u, 0x7fffffffu})
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to)
        for (unsigned i = 0; i < trial_order::words; ++i) {
          const std::uint64_t word = trial_word(n, from, to, i);
          EXPECT_EQ(word & 0x8000000080000000ull, 0u);
          EXPECT_NE(word >> 32, trial_tag(n));
          all.push_back(word);
        }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace xyl::test
