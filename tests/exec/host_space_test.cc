// SPDX-License-Identifier: BSD-3-Clause
//
// The library's own host space, waits and reductions, with ranks as threads of one process: every protocol, kind
// and instruction set against the sequential reference. Under ThreadSanitizer it shows that the shipped orders
// suffice.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "exec/host_rank.hpp"

namespace xyl::test {
namespace {

using machine = thread_machine<host_rank, host_call>;

class host_spaces : public testing::TestWithParam<std::tuple<int, instruction_set>> {};

TEST_P(host_spaces, every_protocol_and_kind) {
  const auto [ranks, isa] = GetParam();
  if (choose_host_reductions(isa).isa != isa) GTEST_SKIP() << "this processor lacks the instruction set";
  wanted_instructions = isa;
  machine_plan plan;
  plan.ranks = ranks;
  plan.last_epoch = 0xfffffff0;
  plan.seed = static_cast<std::uint64_t>(ranks);
  plan.spread = 3000;  // small messages take turns over it, others have one place
  machine m(plan);
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::vector<call_plan> calls;
  for (const protocol how : all_reduces)
    for (int kind = 0; kind < kinds; ++kind)
      for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1 + random() % 40},
                                        std::uint64_t{1 + random() % 1000}, std::uint64_t{UINT64_MAX}}) {
        call_plan call;
        call.how = how;
        call.kind = kind;
        call.count = std::min(count, largest_count(how, m.map(), element_bytes(kind)));
        call.in_place = random() % 3 == 0;
        call.shift = random() % 4;
        calls.push_back(call);
      }
  calls.resize(calls.size() + 20);  // barriers
  std::shuffle(calls.begin(), calls.end(), random);
  ASSERT_TRUE(m.run(calls));
  EXPECT_EQ(m.check(), "");
}

INSTANTIATE_TEST_SUITE_P(all, host_spaces,
                         testing::Combine(testing::Values(2, 3, 4, 8),
                                          testing::Values(instruction_set::baseline, instruction_set::avx2,
                                                          instruction_set::avx512)));

TEST(host_space, a_good_call_is_not_spoiled_by_the_next_one) {
  machine_plan plan;
  plan.ranks = 3;
  machine m(plan);
  const epoch_t first = next_epoch(plan.last_epoch);
  for (int r = 0; r < 3; ++r)
    m.rank(r).control(r).poisoned.word = poison::pack(xylInvalidUsage, 1, next_epoch(first));
  call_plan call;
  call.how = protocol::two_shot;
  call.count = 100;
  EXPECT_TRUE(m.run({call}));
  EXPECT_EQ(m.check(), "");
  EXPECT_FALSE(m.run({call}));
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(m.output(r, 0).untouched());
}

// A flag or a header could be seen before what was streamed ahead of it.
TEST(host_space, flags_and_headers_come_behind_what_was_streamed) {
  control_block control{};
  host_wait waits({&control}, 0, {1'000'000'000, 0}, nullptr, nullptr);
  host_space space(waits, control, store_choice::streaming_for(UINT64_MAX));
  alignas(64) std::byte from[4096] = {}, to[4096];
  const auto stream = [&] {
    space.stage(to, from, sizeof to);
    ASSERT_FALSE(space.staging().is_settled()) << "nothing was streamed, so this shows nothing";
  };
  flag f{};
  stream();
  space.post(&f, 1);
  EXPECT_TRUE(space.staging().is_settled());
  line header{};
  stream();
  space.put(&header, 1, 1);
  EXPECT_TRUE(space.staging().is_settled());
}

TEST(host_space, calls_that_differ) {
  for (const protocol how : {protocol::packet, protocol::one_shot, protocol::two_shot, protocol::ring}) {
    machine_plan plan;
    plan.ranks = 4;
    machine m(plan);
    call_plan call;
    call.how = how;
    call.count = 60;
    std::vector<call_plan> calls(3, call);
    calls[2].odd_rank = 1;
    EXPECT_FALSE(m.run(calls));
    for (int r = 0; r < 4; ++r) {
      EXPECT_TRUE(m.output(r, 2).untouched());
      EXPECT_FALSE(m.output(r, 1).untouched());
      EXPECT_EQ(poison::code(m.rank(r).control(r).poisoned.word), xylInvalidUsage);
    }
  }
}

}  // namespace
}  // namespace xyl::test
