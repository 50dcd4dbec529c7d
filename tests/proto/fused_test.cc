// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce against its reference: every pattern, type, form and spreading over blocks and lanes; the
// same bits on all ranks and in all forms; and that nobody's buffers are touched where the calls do not fit
// together. This file also runs under ThreadSanitizer.
#include <gtest/gtest.h>

#include "proto/fused_machine.hpp"

namespace xyl::test {
namespace {

constexpr fused_form all_forms[] = {
    fused_form::packet,   fused_form::two_shot_packet, fused_form::one_shot,     fused_form::two_shot_slices,
    fused_form::two_shot, fused_form::one_shot_pull,   fused_form::two_shot_pull};
constexpr fused_pattern all_patterns[] = {fused_pattern::all_reduce,    fused_pattern::norm,
                                          fused_pattern::fp8_static,    fused_pattern::fp8_per_token,
                                          fused_pattern::fp8_per_group, fused_pattern::nvfp4_linear,
                                          fused_pattern::nvfp4_swizzled};

std::string describe(const fused_case& f, const fused_grid& g, fused_form form) {
  return "pattern " + std::to_string(static_cast<int>(f.pattern)) + ", " + std::to_string(f.tokens) + " x " +
         std::to_string(f.hidden) + ", form " + std::to_string(static_cast<int>(form)) + ", ranks " +
         std::to_string(g.ranks) + ", blocks " + std::to_string(g.blocks) + " lanes " + std::to_string(g.lanes) +
         " blocks of a row " + std::to_string(g.blocks_of_row);
}

template <class T>
std::vector<fused_data<T>> make_data(const fused_case& f, int ranks) {
  std::vector<fused_data<T>> data;
  for (int r = 0; r < ranks; ++r) data.emplace_back(f, r, ranks);
  return data;
}

// Runs the case and returns rank 0's buffers, checked and compared with the other ranks'.
template <class T>
fused_data<T> run(const fused_case& f, const fused_grid& g, fused_form form) {
  SCOPED_TRACE(describe(f, g, form));
  const std::uint64_t row = f.hidden * sizeof(T);
  fused_machine machine(g, 3 * (row * 2 + 256) * g.rows, (row * 2 + 64) * g.rows + 4096);
  auto data = make_data<T>(f, g.ranks);
  EXPECT_TRUE(machine.run(form, data));
  EXPECT_EQ(data[0].check(), "");
  for (const auto& d : data) {
    EXPECT_EQ(d.check_untouched(), "");
    EXPECT_TRUE(d.same_outputs(data[0])) << "rank " << d.rank;
    if (f.residual_sharded) {
      EXPECT_EQ(d.check(), "");
    }
  }
  return std::move(data[0]);
}

template <class T>
void all_forms_agree(const fused_case& f, fused_grid g) {
  std::vector<fused_data<T>> results;
  for (const fused_form form : all_forms) {
    if (!goes_in(form, f)) continue;
    results.push_back(run<T>(f, g, form));
    EXPECT_TRUE(results.back().same_outputs(results.front())) << describe(f, g, form);
  }
}

TEST(Fused, EveryPatternInEveryForm) {
  std::uint64_t seed = 1;
  for (const fused_pattern pattern : all_patterns)
    for (const int ranks : {2, 3, 4}) {
      fused_case f;
      f.pattern = pattern;
      f.hidden = 384;
      f.tokens = 5;
      f.seed = ++seed;
      f.gemma = seed % 2;
      f.weight_is_float = seed % 3 == 0;
      f.in_place = seed % 4 == 0;
      fused_grid g;
      g.ranks = ranks;
      g.blocks = 1 + seed % 2;
      g.lanes = 2;
      g.rows = 3;
      g.seed = seed;
      g.constant_ranks = seed % 2;
      all_forms_agree<bfloat16>(f, g);
      if (pattern < fused_pattern::nvfp4_linear) all_forms_agree<float>(f, g);
    }
}

TEST(Fused, RowsOfManyLengths) {
  for (const unsigned hidden : {8u, 16u, 120u, 2880u, 6144u, 7168u, 16384u}) {
    fused_case f;
    f.hidden = hidden;
    f.tokens = 3;
    f.seed = hidden;
    f.pattern = hidden % 128 == 0  ? fused_pattern::fp8_per_group
                : hidden % 16 == 0 ? fused_pattern::nvfp4_swizzled
                                   : fused_pattern::fp8_per_token;
    fused_grid g;
    g.lanes = 2;
    g.rows = 2;
    all_forms_agree<float16>(f, g);
  }
}

TEST(Fused, RowsSpreadOverBlocksGiveTheSameBits) {
  for (const fused_pattern pattern :
       {fused_pattern::norm, fused_pattern::fp8_per_token, fused_pattern::nvfp4_linear})
    for (const fused_form form : all_forms) {
      fused_case f;
      f.pattern = pattern;
      f.hidden = 1296;
      f.tokens = 3;
      f.seed = 77;
      fused_grid g;
      g.rows = 2;
      const auto alone = run<bfloat16>(f, g, form);
      g.blocks = 5;
      g.blocks_of_row = 2;  // two teams, and a block without work
      g.lanes = 2;
      EXPECT_TRUE(run<bfloat16>(f, g, form).same_outputs(alone));
      g.blocks_of_row = 5;
      EXPECT_TRUE(run<bfloat16>(f, g, form).same_outputs(alone));
    }
}

// The team of a block is told without a division.
TEST(Fused, EveryBlockBelongsToTheTeamOfItsNumber) {
  for (unsigned blocks = 1; blocks <= 8; ++blocks) {
    fused_work w;
    w.hidden = 8192;
    w.spread(4, blocks);
    for (unsigned block = 0; block < 4096; ++block) ASSERT_EQ(block / w.split, w.team_of(block)) << w.split;
  }
}

// Each block takes over what the owner's block of the same index has written: another one's may not be there yet.
TEST(Fused, QuantisedRowsSpreadOverBlocks) {
  for (const fused_pattern pattern : {fused_pattern::fp8_static, fused_pattern::fp8_per_token,
                                      fused_pattern::fp8_per_group, fused_pattern::nvfp4_swizzled}) {
    fused_case f;
    f.pattern = pattern;
    f.hidden = 1280;
    f.tokens = 5;
    f.residual_sharded = true;
    fused_grid g;
    const auto all = run<bfloat16>(f, g, fused_form::two_shot);
    f.with_output = false;
    g.ranks = 2;
    g.rows = 2;
    g.blocks = 6;
    g.blocks_of_row = 3;
    g.lanes = 2;
    for (g.seed = 1; g.seed <= 3; ++g.seed) {
      const auto some = run<bfloat16>(f, g, fused_form::two_shot);
      EXPECT_TRUE(some.quantised == all.quantised && some.scales == all.scales)
          << describe(f, g, fused_form::two_shot);
    }
  }
}

TEST(Fused, ResidualsOfOwnedRowsOnly) {
  for (const fused_pattern pattern : {fused_pattern::norm, fused_pattern::fp8_static, fused_pattern::fp8_per_token,
                                      fused_pattern::fp8_per_group, fused_pattern::nvfp4_swizzled})
    for (const bool with_output : {true, false}) {
      if (!with_output && pattern == fused_pattern::norm) continue;
      fused_case f;
      f.pattern = pattern;
      f.hidden = 256;
      f.tokens = 7;  // the last rank of four has one row
      f.residual_sharded = true;
      f.with_output = with_output;
      f.in_place = pattern == fused_pattern::fp8_static;
      fused_grid g;
      g.ranks = 4;
      g.lanes = 2;
      all_forms_agree<bfloat16>(f, g);
    }
}

// What the owner sends depends on which outputs are asked for; what comes out does not.
TEST(Fused, TheSameBitsWhateverIsAskedFor) {
  for (const fused_pattern pattern : all_patterns) {
    if (!quantises(pattern)) continue;
    fused_case f;
    f.pattern = pattern;
    f.hidden = 256;
    f.tokens = 3;
    fused_grid g;
    g.ranks = 3;
    g.lanes = 2;
    const auto all = run<float16>(f, g, fused_form::two_shot);
    for (const bool residual_out : {true, false})
      for (const fused_form form : all_forms) {
        f.with_output = false;
        f.with_residual_out = residual_out;
        const auto some = run<float16>(f, g, form);
        EXPECT_TRUE(some.quantised == all.quantised && some.scales == all.scales) << describe(f, g, form);
      }
  }
}

TEST(Fused, MixtureOfExperts) {
  for (const bool table : {true, false})
    for (const int ranks : {2, 4}) {
      fused_case f;
      f.pattern = fused_pattern::fp8_static;
      f.hidden = 264;
      f.tokens = 3;
      f.experts = 4;
      f.expert_table = table;
      f.in_place = ranks == 4;
      fused_grid g;
      g.ranks = ranks;
      g.lanes = 2;
      g.rows = 2;
      all_forms_agree<bfloat16>(f, g);
    }
}

TEST(Fused, EightRanksAndManyTokens) {
  fused_case f;
  f.hidden = 64;
  f.tokens = 33;
  fused_grid g;
  g.ranks = 8;
  g.blocks = 2;
  g.rows = 4;
  all_forms_agree<bfloat16>(f, g);
  f.tokens = 3;  // fewer rows than ranks
  all_forms_agree<bfloat16>(f, g);
  f.tokens = 1;
  f.with_residual = false;
  all_forms_agree<float16>(f, g);
}

TEST(Fused, NoTokens) {
  fused_case f;
  f.tokens = 0;
  fused_grid g;
  g.lanes = 2;
  all_forms_agree<bfloat16>(f, g);
}

TEST(Fused, CallsThatDifferTouchNothing) {
  for (const fused_form form : all_forms) {
    fused_case f;
    f.hidden = 128;
    f.tokens = 2;
    fused_grid g;
    g.ranks = 3;
    g.lanes = 2;
    g.rows = 2;
    fused_machine machine(g, 8192, 8192);
    auto data = make_data<bfloat16>(f, g.ranks);
    EXPECT_FALSE(machine.run(form, data, 1));
    for (const auto& d : data)
      EXPECT_TRUE(d.output.untouched_from(0) && d.residual_out.untouched_from(0)) << static_cast<int>(form);
  }
}

}  // namespace
}  // namespace xyl::test
