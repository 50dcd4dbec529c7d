// SPDX-License-Identifier: BSD-3-Clause
//
// How waits end when the call cannot: calls that do not fit together, a rank that never comes, poison and abort. In
// every case all ranks leave, the record says why, and no output is touched.
#include <gtest/gtest.h>

#include "proto/thread_machine.hpp"

namespace xyl::test {
namespace {

constexpr protocol every_protocol[] = {protocol::packet,      protocol::one_shot,        protocol::two_shot,
                                       protocol::ring,        protocol::two_shot_packet, protocol::grouped_two_shot,
                                       protocol::wide_packet, protocol::line_packet,     protocol::barrier};

call_plan call_of(protocol how, unsigned blocks) {
  call_plan call;
  call.how = how;
  call.kind = 0;
  call.count = how == protocol::barrier ? 0 : 50;
  call.blocks = blocks;
  return call;
}

void expect_outputs_untouched(thread_machine<>& machine, int ranks, std::size_t call) {
  for (int r = 0; r < ranks; ++r) EXPECT_TRUE(machine.output(r, call).untouched()) << "rank " << r;
}

TEST(give_up, calls_that_differ) {
  for (const protocol how : every_protocol)
    for (const int ranks : {2, 3, 4}) {
      machine_plan plan;
      plan.ranks = ranks;
      plan.blocks = plan.lanes = ranks == 4 ? 1 : 2;
      thread_machine<> machine(plan);
      call_plan call = call_of(how, plan.blocks);
      call.odd_rank = ranks - 2;
      ASSERT_FALSE(machine.run({call})) << name_of(how);
      for (int r = 0; r < ranks; ++r) {
        const give_up_record& record = machine.record(r);
        ASSERT_EQ(record.state, 2u);
        EXPECT_EQ(record.code, xylInvalidUsage);
        EXPECT_EQ(record.epoch, next_epoch(plan.last_epoch));
        if (record.waited_in == phase::header && record.wanted > UINT32_MAX) {  // a fingerprint, not an epoch
          EXPECT_NE(record.wanted, record.seen);
          EXPECT_TRUE(r == call.odd_rank || record.peer == call.odd_rank);
        }
        EXPECT_EQ(poison::code(machine.rank(r).control(r).poisoned.word), xylInvalidUsage);
      }
      expect_outputs_untouched(machine, ranks, 0);
    }
}

// A ring stages where the one-shot and two-shot of another rank may write, too. That harms nobody, since nobody
// reads what a refused call has staged, but it is a race that ThreadSanitizer reports.
bool stage_in_the_same_place(protocol a, protocol b) {
  const auto is_shot = [](protocol p) { return p == protocol::one_shot || p == protocol::two_shot; };
  return (a == protocol::ring && is_shot(b)) || (b == protocol::ring && is_shot(a));
}

#ifdef __SANITIZE_THREAD__
constexpr bool reports_races = true;
#else
constexpr bool reports_races = false;
#endif

// Other algorithms, a barrier against an allreduce, other grids: the header is what they have in common.
TEST(give_up, calls_that_differ_in_everything) {
  for (const protocol how : every_protocol)
    for (const protocol odd : every_protocol)
      for (const unsigned odd_blocks : {1u, 2u}) {
        if (reports_races && stage_in_the_same_place(how, odd)) continue;
        machine_plan plan;
        plan.ranks = 3;
        plan.blocks = 2;
        thread_machine<> machine(plan);
        call_plan call = call_of(how, 3 - odd_blocks);
        call.odd_rank = 0;
        call.odd_how = odd;
        call.odd_blocks = odd_blocks;
        ASSERT_FALSE(machine.run({call})) << name_of(how) << " and " << name_of(odd);
        for (int r = 0; r < 3; ++r) {
          ASSERT_EQ(machine.record(r).state, 2u);
          EXPECT_EQ(machine.record(r).code, xylInvalidUsage);
        }
        expect_outputs_untouched(machine, 3, 0);
      }
}

// In the second call, so that the record's epoch is not the first. The first has no short deadline: nobody is
// missing.
void expect_absent_rank_named(protocol how, int ranks, std::chrono::milliseconds deadline) {
  machine_plan plan;
  plan.ranks = ranks;
  plan.absent_rank = ranks - 1;
  thread_machine<> machine(plan);
  ASSERT_TRUE(machine.run({call_of(protocol::barrier, 1)}, true));
  for (int r = 0; r < ranks; ++r) machine.rank(r).deadline = deadline;
  ASSERT_FALSE(machine.run({call_of(how, 1)}));
  const epoch_t wanted = next_epoch(next_epoch(plan.last_epoch));
  int named = 0;
  for (int r = 0; r < ranks - 1; ++r) {
    const give_up_record& record = machine.record(r);
    ASSERT_EQ(record.state, 2u);
    EXPECT_EQ(record.code, xylTimeout);
    EXPECT_EQ(record.waited_in, phase::header);
    EXPECT_EQ(record.wanted, wanted);
    EXPECT_NE(record.seen, wanted);
    EXPECT_EQ(record.epoch, wanted);
    EXPECT_EQ(poison::culprit(machine.rank(r).control(r).poisoned.word), plan.absent_rank);
    named += record.peer == plan.absent_rank;
  }
  EXPECT_GE(named, 1);
  EXPECT_TRUE(machine.poisoned(plan.absent_rank));
  expect_outputs_untouched(machine, ranks, 0);
}

TEST(give_up, a_rank_that_never_comes) {
  // One rank waits alone: no deadline is too short for it.
  for (const protocol how : every_protocol) expect_absent_rank_named(how, 2, std::chrono::milliseconds(20));
  // Two wait: the deadline must outlast the time in which the other one starts.
  for (const protocol how : {protocol::packet, protocol::ring})
    expect_absent_rank_named(how, 3, std::chrono::milliseconds(1500));
}

TEST(give_up, poison_found_at_begin) {
  for (const protocol how : every_protocol) {
    machine_plan plan;
    plan.ranks = 3;
    plan.blocks = plan.lanes = 2;
    thread_machine<> machine(plan);
    for (int r = 0; r < 3; ++r) machine.rank(r).control(r).poisoned.word = poison::pack(xylRemoteError, 1);
    ASSERT_FALSE(machine.run({call_of(how, 2), call_of(how, 1)}));
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(machine.record(r).state, 2u);
      EXPECT_EQ(machine.record(r).code, xylRemoteError);
      EXPECT_EQ(machine.record(r).peer, 1);
      EXPECT_EQ(machine.record(r).waited_in, phase::none);
    }
    expect_outputs_untouched(machine, 3, 0);
    expect_outputs_untouched(machine, 3, 1);
  }
}

// Found by ranks that were one call ahead: the good call ends well, the next one does not begin.
TEST(give_up, a_good_call_is_not_spoiled_by_the_next_one) {
  for (const protocol how : every_protocol) {
    machine_plan plan;
    plan.ranks = 3;
    plan.lanes = 2;
    thread_machine<> machine(plan);
    const epoch_t first = next_epoch(plan.last_epoch);
    for (int r = 0; r < 3; ++r)
      machine.rank(r).control(r).poisoned.word = poison::pack(xylInvalidUsage, 1, next_epoch(first));
    EXPECT_TRUE(machine.run({call_of(how, 1)}));
    EXPECT_EQ(machine.check(), "");
    EXPECT_FALSE(machine.run({call_of(how, 1)}));
    expect_outputs_untouched(machine, 3, 0);
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(machine.record(r).code, xylInvalidUsage);
      EXPECT_EQ(machine.record(r).epoch, next_epoch(first));
    }
  }
}

// The deadline is far away: what ends the wait is the poison, or the abort, that comes while it lasts.
TEST(give_up, poison_and_abort_during_a_wait) {
  for (const bool abort : {false, true})
    for (const protocol how : every_protocol) {
      machine_plan plan;
      plan.ranks = 3;
      plan.absent_rank = 0;
      thread_machine<> machine(plan);
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (abort)
          machine.rank(1).aborted.store(true, std::memory_order_relaxed);
        else
          for (int r = 0; r < 3; ++r)
            std::atomic_ref(machine.rank(r).control(r).poisoned.word)
                .store(poison::pack(xylRemoteError, 0), std::memory_order_relaxed);
      });
      EXPECT_FALSE(machine.run({call_of(how, 1)}));
      later.join();
      for (int r = 1; r < 3; ++r) {
        ASSERT_EQ(machine.record(r).state, 2u);
        EXPECT_EQ(machine.record(r).code, xylRemoteError);
        EXPECT_EQ(poison::culprit(machine.rank(r).control(r).poisoned.word), abort ? 1 : 0);
      }
      expect_outputs_untouched(machine, 3, 0);
    }
}

}  // namespace
}  // namespace xyl::test
