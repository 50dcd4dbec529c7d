// SPDX-License-Identifier: BSD-3-Clause
//
// Small cases on registered buffers in every interleaving: no deadlock, right bytes, though every rank writes its
// next input as soon as its call is over. And a rank that does not wait for the others to be done, whose wrong
// bytes must be found.
#include <gtest/gtest.h>

#include "proto/pull.hpp"
#include "proto/schedule_world.hpp"

namespace xyl::test {
namespace {

using sum_of_two = reduction<portable_codec<float>, operation::sum, 2>;

struct hasty_space : schedule_space {
  explicit hasty_space(const schedule_space& base) : schedule_space(base) {}
  bool await(const flag* f, epoch_t e, waiting w) {
    return (is_hasty && w.what == phase::pulled) || schedule_space::await(f, e, w);
  }
  bool is_hasty = false;
};

// Two units a buffer, which lies in the workspace so that the explorer knows whose it is.
constexpr std::uint64_t elements = 8;

float given(int rank, int round, std::size_t i) {
  return static_cast<float>(100 * round + 10 * rank) + static_cast<float>(i);
}

schedule_explorer::outcome explore(pull_form form, bool in_place, bool is_hasty) {
  world w(2, 1);
  const int rounds = 2;
  std::vector<char> good(2);
  const auto buffer = [&](int r, bool input) {
    pull_call<machine_capacity> c;
    w.fill(c, r);
    return c.workspace[r] + c.map.bulk_offset(1, 1) + (input ? 0 : elements * sizeof(float));
  };
  const auto write = [&](hasty_space& s, int r, int round) {
    for (std::size_t unit = 0; unit < 2; ++unit) {
      float values[4];
      for (std::size_t i = 0; i < 4; ++i) values[i] = given(r, round, 4 * unit + i);
      unit16 data;
      std::memcpy(&data, values, sizeof data);
      s.store16(user_unit(buffer(r, true), unit), data);
    }
  };
  const auto body = [&](schedule_space& base, int r) {
    hasty_space s(base);
    s.is_hasty = is_hasty && r == 1;
    good[static_cast<unsigned>(r)] = 1;
    for (int round = 0; round < rounds; ++round) {
      pull_call<machine_capacity> c;
      w.fill(c, r);
      for (int p = 0; p < 2; ++p) {
        c.input_of[p] = buffer(p, true);
        c.output_of[p] = buffer(p, in_place);
      }
      c.input = c.input_of[r];
      c.output = c.output_of[r];
      c.count = elements;
      c.inputs_aligned = c.outputs_aligned = true;
      c.fingerprint = 0x1234567890abcdefull + static_cast<unsigned>(round);
      write(s, r, round);
      if (!pull_reduce(s, c, sum_of_two{}, form)) good[static_cast<unsigned>(r)] = 0;
      if (!in_place) write(s, r, 77);  // in place it is the result
    }
  };
  const auto verdict = [&]() -> std::string {
    for (int r = 0; r < 2; ++r) {
      if (!good[static_cast<unsigned>(r)]) return "a rank gave up";
      float got[elements];
      std::memcpy(got, buffer(r, in_place), sizeof got);
      for (std::size_t i = 0; i < elements; ++i)
        if (got[i] != given(0, rounds - 1, i) + given(1, rounds - 1, i)) return "wrong bytes";
    }
    return "";
  };
  return w.explore(true, body, verdict);
}

TEST(schedule_of_pulls, right_bytes_in_every_order) {
  for (const auto& [form, in_place] : {std::pair{pull_form::one_shot, false},
                                       {pull_form::two_shot, false},
                                       {pull_form::two_shot, true},
                                       {pull_form::gathered, false}}) {
    const auto result = explore(form, in_place, false);
    EXPECT_EQ(result.failure, "") << "form " << static_cast<int>(form) << ", in place " << in_place;
    EXPECT_EQ(result.deadlocks, 0u);
    EXPECT_GE(result.schedules, 1u);
    std::printf("form %d, in place %d: %llu states\n", static_cast<int>(form), in_place,
                static_cast<unsigned long long>(result.states));
  }
}

TEST(schedule_of_pulls, finds_who_does_not_wait_for_the_others_to_be_done) {
  for (const auto& [form, in_place] : {std::pair{pull_form::one_shot, false}, {pull_form::two_shot, true}})
    EXPECT_NE(explore(form, in_place, true).failure, "") << "form " << static_cast<int>(form);
}

}  // namespace
}  // namespace xyl::test
