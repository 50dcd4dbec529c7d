// SPDX-License-Identifier: BSD-3-Clause
//
// Small cases of the fused allreduce in every interleaving: no deadlock, and right bytes on all ranks. And a
// two-shot form in which the owners' flags are not waited for, whose wrong rows must be found.
#include <gtest/gtest.h>

#include "proto/fused_machine.hpp"
#include "proto/schedule_world.hpp"

namespace xyl::test {
namespace {

using bf16_rows = fused_kind<portable_codec<bfloat16>, portable_quantiser, 0>;

constexpr fused_form all_forms[] = {
    fused_form::packet,   fused_form::two_shot_packet, fused_form::one_shot,     fused_form::two_shot_slices,
    fused_form::two_shot, fused_form::one_shot_pull,   fused_form::two_shot_pull};

// Rows of one unit, or of two packets.
class small_space : public schedule_space {
 public:
  small_space(const schedule_space& s, schedule_rank& owner) : schedule_space(s), owner_(&owner) {}
  static constexpr int pieces_of_lane = 2;
  std::uint32_t* row_scratch() { return reinterpret_cast<std::uint32_t*>(owner_->words.data()); }

 private:
  schedule_rank* owner_;
};

class hasty_space : public small_space {
 public:
  using small_space::small_space;
  bool await(const flag* f, epoch_t e, waiting w) { return w.what == phase::gather || small_space::await(f, e, w); }
};

class careless_space : public small_space {
 public:
  using small_space::small_space;
  bool await(const flag* f, epoch_t e, waiting w) { return w.what == phase::pulled || small_space::await(f, e, w); }
};

template <class Space>
schedule_explorer::outcome explore(int ranks, unsigned lanes, fused_form form, const fused_case& f, int times) {
  world w(ranks, lanes);
  std::vector<fused_data<bfloat16>> fresh, data;
  for (int r = 0; r < ranks; ++r) fresh.emplace_back(f, r, ranks);
  data = fresh;
  std::vector<char> good(static_cast<unsigned>(ranks));
  const fused_inputs inputs = inputs_of(data);
  const auto body = [&](schedule_space& of_world, int r) {
    const auto mine = static_cast<unsigned>(r);
    Space s(of_world, w.at(r));
    good[mine] = 1;
    for (int k = 0; k < times; ++k) {
      call<machine_capacity> c;
      w.fill(c, r);
      c.fingerprint = 0x1234567890abcdefull + static_cast<unsigned>(k);
      fused_work work = work_of(data[mine], form, ranks);
      work.rows = static_cast<std::uint32_t>(uses_shares(form) ? work.share : work.tokens);
      const bool one = form == fused_form::packet            ? fused_packet<bf16_rows>(s, c, work)
                       : form == fused_form::two_shot_packet ? fused_two_shot_packet<bf16_rows>(s, c, work)
                       : form == fused_form::one_shot        ? fused_one_shot<bf16_rows>(s, c, work)
                       : form == fused_form::two_shot_slices ? fused_two_shot_slices<bf16_rows>(s, c, work)
                       : form == fused_form::two_shot        ? fused_two_shot<bf16_rows>(s, c, work)
                       : form == fused_form::one_shot_pull   ? fused_one_shot_pull<bf16_rows>(s, c, work, inputs)
                                                             : fused_two_shot_pull<bf16_rows>(s, c, work, inputs);
      good[mine] = one && good[mine];
      if (!pulls(form) || f.in_place) continue;
      // Its input is a rank's own again, until its next call.
      std::memset(data[mine].input.raw(), 0x11, data[mine].input.size());
      if (k + 1 < times) data[mine].input = fresh[mine].input;
    }
  };
  const auto verdict = [&]() -> std::string {
    for (std::size_t r = 0; r < data.size(); ++r) {
      if (!good[r]) return "a rank gave up";
      if (!data[r].same_outputs(data[0])) return "ranks differ";
    }
    return data[0].check();
  };
  return w.explore(true, body, verdict, false, [&] {
    for (std::size_t r = 0; r < data.size(); ++r) {
      data[r].input = fresh[r].input;
      data[r].residual = fresh[r].residual;
      data[r].output = fresh[r].output;
      data[r].residual_out = fresh[r].residual_out;
      data[r].quantised = fresh[r].quantised;
    }
  });
}

fused_case case_of(fused_pattern pattern, std::uint64_t tokens) {
  fused_case f;
  f.pattern = pattern;
  f.hidden = 8;
  f.tokens = tokens;
  f.seed = 5;
  return f;
}

TEST(schedule_fused, every_form) {
  for (const fused_form form : all_forms)
    for (const fused_pattern pattern : {fused_pattern::all_reduce, fused_pattern::norm}) {
      const fused_case f = case_of(pattern, uses_shares(form) ? 2 : 1);
      // A third call comes back to the first one's slot.
      const auto found = explore<small_space>(2, 1, form, f, 3);
      EXPECT_EQ(found.failure, "") << static_cast<int>(form);
      EXPECT_GE(found.schedules, 1u);
      EXPECT_GT(found.states, 20u);
    }
}

TEST(schedule_fused, two_lanes) {
  for (const fused_form form : all_forms) {
    const fused_case f = case_of(fused_pattern::norm, uses_shares(form) ? 2 : 1);
    const auto found = explore<small_space>(2, 2, form, f, 1);
    EXPECT_EQ(found.failure, "") << static_cast<int>(form);
    EXPECT_GT(found.states, 20u);
  }
}

// What an owner has quantised: the peers copy its bytes.
TEST(schedule_fused, quantised_rows_from_their_owners) {
  fused_case f = case_of(fused_pattern::fp8_static, 2);
  f.with_output = f.with_residual_out = false;
  const auto found = explore<small_space>(2, 1, fused_form::two_shot, f, 3);
  EXPECT_EQ(found.failure, "");
  EXPECT_GT(found.states, 20u);
}

TEST(schedule_fused, an_owner_that_is_not_waited_for_is_found) {
  const auto found = explore<hasty_space>(2, 1, fused_form::two_shot, case_of(fused_pattern::norm, 2), 1);
  EXPECT_GT(found.wrong, 0u) << found.failure;
}

// An input that is changed while a peer reads it.
TEST(schedule_fused, a_reader_that_is_not_waited_for_is_found) {
  const auto found = explore<careless_space>(2, 1, fused_form::one_shot_pull, case_of(fused_pattern::norm, 1), 1);
  EXPECT_GT(found.wrong, 0u) << found.failure;
}

TEST(schedule_fused, a_pulled_input_in_place) {
  fused_case f = case_of(fused_pattern::norm, 2);
  f.in_place = true;
  const auto found = explore<small_space>(2, 1, fused_form::two_shot_pull, f, 1);
  EXPECT_EQ(found.failure, "");
  EXPECT_GT(found.states, 20u);
}

}  // namespace
}  // namespace xyl::test
