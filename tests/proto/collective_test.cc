// SPDX-License-Identifier: BSD-3-Clause
//
// Every form of every collective other than allreduce, and transfers, with ranks as threads; built with
// ThreadSanitizer too. See protocol_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "proto/collective_machine.hpp"
#include "proto/shapes.hpp"

namespace xyl::test {
namespace {

constexpr form forms[] = {form::packet,      form::direct,  form::pull,          form::spread,
                          form::single_copy, form::one_way, form::packet_reduce, form::direct_reduce,
                          form::two_phase,   form::shift,   form::long_shift,    form::swap};
constexpr collective collectives[] = {collective::broadcast,      collective::all_gather, collective::all_to_all,
                                      collective::gather,         collective::scatter,    collective::reduce,
                                      collective::reduce_scatter, collective::send};

class collectives_of : public of_a_shape {
 protected:
  machine_plan plan(std::uint64_t seed) const {
    machine_plan plan = plan_of(seed);
    plan.packet_bytes_per_rank = 1024;
    plan.bulk_bytes_per_rank = 4096;
    return plan;
  }
};

// All collectives in one random order, so that each follows each, with all roots, sizes and alignments.
TEST_P(collectives_of, bytes_of_every_form_in_any_order) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed * 100 + static_cast<unsigned>(GetParam().ranks)));
    const machine_plan p = plan(seed);
    collective_machine<> machine(p);
    std::vector<collective_plan> calls;
    for (const form how : forms)
      for (const collective what : collectives) {
        if (!does(how, what)) continue;
        for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1 + random() % 20},
                                          std::uint64_t{1 + random() % 300}, std::uint64_t{UINT64_MAX}}) {
          collective_plan c;
          c.how = how;
          c.what = what;
          c.kind = static_cast<int>(random() % kinds);
          c.count = std::min(count, largest_piece(how, machine.map(), element_bytes(c.kind)));
          c.root = static_cast<int>(random() % static_cast<unsigned>(p.ranks));
          c.blocks = 1 + random() % p.blocks;
          if (how == form::swap && p.ranks != 2) continue;
          // A send and a receive need a block each.
          const bool is_shift = what == collective::send;
          if (is_shift && (p.blocks < 2 || p.ranks < 2)) continue;
          if (is_shift) {
            c.blocks = p.blocks;
            if (random() % 2) c.only = static_cast<int>(random() % static_cast<unsigned>(p.ranks));
          }
          if (how == form::single_copy || how == form::one_way) c.blocks = 1;
          c.distance = 1 + static_cast<int>(random() % static_cast<unsigned>(p.ranks - 1));
          c.in_place = random() % 2;
          c.shift = random() % 2 ? random() % 4 : 0;
          calls.push_back(c);
        }
      }
    std::shuffle(calls.begin(), calls.end(), random);
    ASSERT_TRUE(machine.run(calls)) << "seed " << seed;
    EXPECT_EQ(machine.check(), "") << "seed " << seed;
  }
}

TEST_P(collectives_of, that_differ_touch_no_output) {
  for (const form how : forms)
    for (const collective what : collectives) {
      if (!does(how, what) || what == collective::send || how == form::one_way) continue;
      if (how == form::swap && GetParam().ranks != 2) continue;
      machine_plan p = plan(1);
      collective_machine<> machine(p);
      collective_plan c;
      c.how = how;
      c.what = what;
      c.count = 20;
      c.blocks = how == form::single_copy ? 1 : p.blocks;
      c.root = p.ranks - 1;
      std::vector<collective_plan> calls(2, c);
      calls[1].odd_rank = p.ranks - 2;
      EXPECT_FALSE(machine.run(calls));
      for (int r = 0; r < p.ranks; ++r) {
        EXPECT_TRUE(machine.output(r, 1).untouched()) << form_names[static_cast<int>(how)] << " rank " << r;
        EXPECT_EQ(poison::code(machine.rank(r).control(r).poisoned.word), xylInvalidUsage);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(shapes, collectives_of,
                         testing::Values(shape{2, 1, 1}, shape{2, 2, 2}, shape{3, 2, 1}, shape{3, 1, 2},
                                         shape{4, 2, 2}, shape{8, 2, 1}),
                         [](const auto& info) {
                           return "ranks" + std::to_string(info.param.ranks) + "blocks" +
                                  std::to_string(info.param.blocks) + "lanes" + std::to_string(info.param.lanes);
                         });

// Who gets something finds it before an output is touched; who only sends is told by poison.
TEST_P(collectives_of, of_one_way_that_differ_are_found_by_who_gets_something) {
  for (const collective what :
       {collective::gather, collective::reduce, collective::broadcast, collective::scatter}) {
    const machine_plan p = plan(1);
    collective_machine<> machine(p);
    collective_plan c;
    c.how = form::one_way;
    c.what = what;
    c.count = 20;
    std::vector<collective_plan> calls(2, c);
    // A sender differs from the root, or the root from all others.
    calls[1].odd_rank = what == collective::gather || what == collective::reduce ? p.ranks - 1 : 0;
    EXPECT_FALSE(machine.run(calls));
    for (int r = 0; r < p.ranks; ++r) {
      const bool gets_all = (what == collective::gather || what == collective::reduce) ? r == 0 : r != 0;
      EXPECT_TRUE(!gets_all || machine.output(r, 1).untouched()) << static_cast<int>(what) << " rank " << r;
      EXPECT_EQ(poison::code(machine.rank(r).control(r).poisoned.word), xylInvalidUsage);
    }
  }
}

// Nobody meets in between: the sender is up to a ring ahead. 2^32 messages later tags wrap, numbers do not.
TEST_P(collectives_of, one_way_go_on_for_many_times_their_ring_and_across_the_wrap_of_their_tags) {
  const machine_plan p = plan(2);
  collective_machine<> machine(p);
  const std::uint64_t before = 0xfffffff8ull;
  for (int r = 0; r < p.ranks; ++r)
    for (unsigned peer = 0; peer < static_cast<unsigned>(p.ranks); ++peer) {
      std::byte* const mine = machine.rank(r).workspaces[static_cast<unsigned>(r)];
      *reinterpret_cast<std::uint64_t*>(mine + machine.map().one_way_counter(peer, false)) = before;
      *reinterpret_cast<std::uint64_t*>(mine + machine.map().one_way_counter(peer, true)) = before;
      reinterpret_cast<flag*>(mine + machine.map().flag_offset(flag_family::one_way, peer, 0))->epoch = before;
    }
  std::vector<collective_plan> calls;
  for (unsigned i = 0; i < 40; ++i) {
    collective_plan c;
    c.how = form::one_way;
    c.what = i % 4 == 3 ? collective::scatter : collective::broadcast;
    c.count = 1 + i * 7;
    calls.push_back(c);
  }
  ASSERT_TRUE(machine.run(calls));
  EXPECT_EQ(machine.check(), "");
}

// The receiver finds it; its output stays as it was, and both are out of service.
void expect_that_a_difference_is_found(form how) {
  machine_plan p;
  p.blocks = 2;
  p.lanes = 2;
  collective_machine<> machine(p);
  collective_plan c;
  c.how = how;
  c.what = collective::send;
  c.count = 2000;
  c.blocks = 2;
  std::vector<collective_plan> calls(2, c);
  calls[1].odd_rank = 1;
  EXPECT_FALSE(machine.run(calls));
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(machine.output(r, 1).untouched());
    EXPECT_EQ(poison::code(machine.rank(r).control(r).poisoned.word), xylInvalidUsage);
  }
}

TEST(transfers, that_differ_are_found_by_the_receiver) { expect_that_a_difference_is_found(form::shift); }

// Long ones between calls that use the same regions, by ranks of which some have no part in them and are a call
// ahead: what a region held, and what comes next, stays whole.
TEST(transfers, of_long_messages_share_regions_with_the_calls_around_them) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    machine_plan p;
    p.ranks = 2 + static_cast<int>(seed % 3);
    p.blocks = 6;
    p.lanes = 1 + static_cast<unsigned>(seed % 2);
    p.seed = seed;
    p.bulk_bytes_per_rank = 4096;
    collective_machine<> machine(p);
    std::vector<collective_plan> calls;
    for (int i = 0; i < 24; ++i) {
      collective_plan c;
      c.how = i % 8 == 7 ? form::shift
              : i % 2    ? form::long_shift
                         : std::array{form::direct, form::pull, form::spread}[random() % 3];
      c.what = i % 2 ? collective::send : c.how == form::direct ? collective::all_to_all : collective::broadcast;
      c.kind = static_cast<int>(random() % kinds);
      const std::uint64_t element = element_bytes(c.kind);
      c.blocks = i % 2 ? 6 : 1 + random() % 6;
      c.root = static_cast<int>(random() % static_cast<unsigned>(p.ranks));
      c.distance = 1 + static_cast<int>(random() % static_cast<unsigned>(p.ranks - 1));
      c.only = random() % 2 ? c.root : -1;
      // From nothing to three times what a region holds, and an odd end.
      c.count = i % 2 ? random() % (3 * 4096 / element) : 4096 / element;
      c.shift = random() % 2;
      calls.push_back(c);
    }
    ASSERT_TRUE(machine.run(calls)) << "seed " << seed;
    EXPECT_EQ(machine.check(), "") << "seed " << seed;
  }
}

TEST(transfers, of_long_messages_that_differ_are_found_by_the_receiver) {
  expect_that_a_difference_is_found(form::long_shift);
}

// 2^32 chunks later: tags wrap, numbers do not.
TEST(transfers, go_on_across_the_wrap_of_their_tags) {
  machine_plan p;
  p.ranks = 3;
  p.blocks = 2;
  collective_machine<> machine(p);
  const std::uint64_t before = 0xfffffffaull;
  for (int r = 0; r < 3; ++r)
    for (unsigned peer = 0; peer < 3; ++peer) {
      std::byte* const mine = machine.rank(r).workspaces[static_cast<unsigned>(r)];
      *reinterpret_cast<std::uint64_t*>(mine + machine.map().sent_offset(peer, 0)) = before;
      *reinterpret_cast<std::uint64_t*>(mine + machine.map().received_offset(peer, 0)) = before;
      reinterpret_cast<flag*>(mine + machine.map().flag_offset(flag_family::credit, peer, 0))->epoch = before;
    }
  collective_plan c;
  c.how = form::shift;
  c.what = collective::send;
  c.blocks = 2;
  std::vector<collective_plan> calls;
  for (int i = 0; i < 12; ++i) {
    c.count = 1 + static_cast<unsigned>(i) * 37;
    c.how = i % 3 == 2 ? form::long_shift : form::shift;
    c.distance = 1 + i % 2;
    calls.push_back(c);
  }
  ASSERT_TRUE(machine.run(calls));
  EXPECT_EQ(machine.check(), "");
}

}  // namespace
}  // namespace xyl::test
