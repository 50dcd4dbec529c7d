// SPDX-License-Identifier: BSD-3-Clause
//
// Every protocol with ranks as threads: results equal to a sequential reference bit for bit on all ranks, nothing
// written outside the outputs, epochs across the wrap of their low half. Meant to be built with ThreadSanitizer,
// where it also proves that every access is ordered. Cases are a seeded selection, so that the whole takes seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "proto/shapes.hpp"

namespace xyl::test {
namespace {

constexpr epoch_t first_epochs[] = {epoch_zero, 0xfffffffdull, (1ull << 63) - 3, (1ull << 63) + 0xfffffffcull};
constexpr std::uint64_t counts[] = {0, 1, 2, 3, 7, 8, 9, 31, 33, 255, 1000};

class protocols : public of_a_shape {
 protected:
  machine_plan plan(std::uint64_t seed) const {
    machine_plan plan = plan_of(seed);
    plan.last_epoch = first_epochs[seed / 3 % std::size(first_epochs)];
    return plan;
  }

  // The count, or what fits if that is less.
  call_plan make_call(const layout& map, protocol how, std::uint64_t count, std::mt19937& random) const {
    call_plan call;
    call.how = how;
    call.kind = static_cast<int>(random() % kinds);
    call.count = how == protocol::barrier ? 0 : std::min(count, largest_count(how, map, element_bytes(call.kind)));
    call.blocks = 1 + random() % GetParam().blocks;
    call.in_place = random() % 3 == 0;
    call.constant_ranks = random() % 2;
    call.shift = random() % 2 ? random() % 4 : 0;
    return call;
  }

  void run_and_check(const machine_plan& plan, const std::vector<call_plan>& calls, thread_machine<>& machine) {
    ASSERT_TRUE(machine.run(calls)) << "seed " << plan.seed;
    EXPECT_EQ(machine.check(), "") << "seed " << plan.seed;
    epoch_t last = plan.last_epoch;
    for (std::size_t i = 0; i < calls.size(); ++i) last = next_epoch(last);
    for (int r = 0; r < plan.ranks; ++r) {
      const thread_rank& rank = machine.rank(r);
      EXPECT_EQ(rank.control(r).call.epoch, last);
      EXPECT_EQ(rank.base, rank.entered);
      EXPECT_EQ(rank.left, rank.entered);
      EXPECT_FALSE(machine.poisoned(r));
      EXPECT_EQ(machine.record(r).state, 0u);
    }
  }
};

// What a fused call in two steps adds is added once, by whoever finishes an element, in place or not.
TEST_P(protocols, an_addend_is_added_to_the_sum_of_all_ranks) {
  if (GetParam().ranks != 2 && GetParam().ranks != 4 && GetParam().ranks != 8) GTEST_SKIP() << "no constant";
  int float_sum = -1;
  for (int k = 0; k < kinds; ++k)
    with_kind(k, [&]<class Kind>(Kind) {
      if (std::is_same_v<Kind, kind<float, operation::sum>> && float_sum < 0) float_sum = k;
    });
  ASSERT_GE(float_sum, 0);
  const machine_plan plan = this->plan(5);
  thread_machine<> machine(plan);
  std::mt19937 random(11);
  std::vector<call_plan> calls;
  for (const protocol how :
       {protocol::two_shot_packet, protocol::grouped_two_shot, protocol::one_shot, protocol::two_shot})
    for (const std::uint64_t count : {4, 12, 36, 256}) {
      call_plan call = make_call(machine.map(), how, count, random);
      call.kind = float_sum;
      call.count = std::min(count, largest_count(how, machine.map(), sizeof(float)) / 4 * 4);
      ASSERT_GT(call.count, 0u);
      call.constant_ranks = true;
      call.with_addend = true;
      calls.push_back(call);
    }
  run_and_check(plan, calls, machine);
}

// Each protocol alone, over all counts in a random order, so that slots are reused at once.
TEST_P(protocols, all_counts) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const protocol how = all_reduces[seed % std::size(all_reduces)];
    std::mt19937 random(static_cast<unsigned>(seed));
    const machine_plan p = plan(seed);
    thread_machine<> machine(p);
    std::vector<call_plan> calls;
    for (const std::uint64_t count : counts) calls.push_back(make_call(machine.map(), how, count, random));
    calls.push_back(make_call(machine.map(), how, UINT64_MAX, random));
    std::shuffle(calls.begin(), calls.end(), random);
    run_and_check(p, calls, machine);
  }
}

// Every kind once with each protocol, in an order that mixes protocols and grids.
TEST_P(protocols, mixed) {
  std::mt19937 random(5);
  const machine_plan p = plan(9);
  thread_machine<> machine(p);
  std::vector<call_plan> calls;
  for (const protocol how : all_reduces)
    for (int kind = 0; kind < kinds; ++kind) {
      call_plan call = make_call(machine.map(), how, 1 + random() % 70, random);
      call.kind = kind;
      call.count = std::min(call.count, largest_count(how, machine.map(), element_bytes(kind)));
      calls.push_back(call);
    }
  for (int i = 0; i < 8; ++i) calls.push_back(make_call(machine.map(), protocol::barrier, 0, random));
  std::shuffle(calls.begin(), calls.end(), random);
  run_and_check(p, calls, machine);
}

// Rings in an order of their own, among other protocols, whose results do not depend on it.
TEST_P(protocols, ring_in_any_order) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed + 77));
    machine_plan p = plan(seed);
    for (int r = 0; r < p.ranks; ++r) p.ring.push_back(r);
    std::shuffle(p.ring.begin(), p.ring.end(), random);
    thread_machine<> machine(p);
    std::vector<call_plan> calls;
    for (const std::uint64_t count : counts) {
      calls.push_back(make_call(machine.map(), protocol::ring, count, random));
      calls.push_back(make_call(machine.map(), all_reduces[random() % std::size(all_reduces)], count, random));
    }
    std::shuffle(calls.begin(), calls.end(), random);
    run_and_check(p, calls, machine);
  }
}

TEST_P(protocols, barrier_across_the_wrap) {
  for (const epoch_t last : first_epochs) {
    machine_plan p = plan(1);
    p.last_epoch = last;
    thread_machine<> machine(p);
    std::vector<call_plan> calls(10);
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i].blocks = 1 + i % p.blocks;
    run_and_check(p, calls, machine);
  }
}

INSTANTIATE_TEST_SUITE_P(shapes, protocols,
                         testing::Values(shape{2, 1, 1}, shape{2, 1, 2}, shape{2, 2, 2}, shape{3, 1, 1},
                                         shape{3, 2, 1}, shape{3, 2, 2}, shape{4, 1, 2}, shape{4, 2, 2},
                                         shape{8, 1, 1}, shape{8, 1, 2}, shape{8, 2, 1}),
                         shape_name);

}  // namespace
}  // namespace xyl::test
