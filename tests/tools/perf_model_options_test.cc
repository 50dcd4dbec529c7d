// SPDX-License-Identifier: BSD-3-Clause
//
// The command line of `decode` and `fused`: presets, lists, defaults, and what is refused with which words.
#include <gtest/gtest.h>

#include "tools/perf_options.hpp"

namespace xyl {
namespace {

constexpr subcommand subcommands[] = {{"decode", "A decode step", subcommand_kind::decode},
                                      {"fused", "Pattern by pattern", subcommand_kind::fused}};

command_line_outcome read(std::vector<const char*> arguments, perf_options& out) {
  arguments.insert(arguments.begin(), "xylem-perf");
  return read_command_line(static_cast<int>(arguments.size()), arguments.data(), subcommands, "1.2.3", out);
}

perf_options read_good(const std::vector<const char*>& arguments) {
  perf_options out;
  const command_line_outcome outcome = read(arguments, out);
  EXPECT_LT(outcome.exit_code, 0) << outcome.error;
  return out;
}

void expect_refusal(const std::vector<const char*>& arguments, const char* part) {
  perf_options out;
  const command_line_outcome outcome = read(arguments, out);
  EXPECT_EQ(outcome.exit_code, exit_usage);
  EXPECT_NE(outcome.error.find(part), std::string::npos) << outcome.error;
}

TEST(perf_model_options, defaults) {
  const perf_options decode = read_good({"decode"});
  EXPECT_EQ(decode.collective, "decode");
  EXPECT_EQ(decode.types, std::vector<xylDataType_t>{xylBfloat16});
  EXPECT_EQ(decode.model.layers, 61);
  EXPECT_EQ(decode.model.hidden, 7168);
  EXPECT_EQ(decode.model.tokens, (std::vector<int>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(decode.model.patterns, std::vector<xylFusedPattern_t>{xylFusedResidualRMSNorm});
  EXPECT_TRUE(decode.model.fused);
  EXPECT_TRUE(decode.model.unfused);
  const perf_options fused = read_good({"fused"});
  EXPECT_EQ(fused.model.patterns.size(), 7u);
  EXPECT_TRUE(fused.model.fused);
  EXPECT_FALSE(fused.model.unfused);
}

TEST(perf_model_options, presets_give_way_to_explicit_numbers) {
  EXPECT_EQ(read_good({"decode", "--preset", "kimi-k2"}).model.layers, 61);
  const model_options glm = read_good({"decode", "--preset", "GLM-5"}).model;
  EXPECT_EQ(glm.preset, "glm-5");
  EXPECT_EQ(glm.layers, 78);
  EXPECT_EQ(glm.hidden, 6144);
  const model_options less = read_good({"decode", "--layers", "3", "--preset", "glm-5"}).model;
  EXPECT_EQ(less.layers, 3);
  EXPECT_EQ(less.hidden, 6144);
}

TEST(perf_model_options, lists_types_and_modes) {
  const perf_options o = read_good({"decode", "--tokens", "5,1,65536", "--type", "half", "--unfused", "--gemma"});
  EXPECT_EQ(o.model.tokens, (std::vector<int>{5, 1, 65536}));
  EXPECT_EQ(o.types, std::vector<xylDataType_t>{xylFloat16});
  EXPECT_FALSE(o.model.fused);
  EXPECT_TRUE(o.model.unfused);
  EXPECT_TRUE(o.model.gemma_style);
  EXPECT_FALSE(o.model.fp32_weight);
  const model_options both = read_good({"fused", "--pattern", "rmsnorm", "--fused", "--unfused"}).model;
  EXPECT_TRUE(both.fused);
  EXPECT_TRUE(both.unfused);
  EXPECT_FALSE(read_good({"decode", "--pattern", "fp8-token"}).model.unfused) << "there is no such kernel";
}

TEST(perf_model_options, of_all_patterns_those_that_suit_are_measured) {
  EXPECT_EQ(read_good({"fused", "--hidden", "2880"}).model.patterns.size(), 6u) << "not groups of 128";
  EXPECT_EQ(read_good({"fused", "-d", "float"}).model.patterns.size(), 5u) << "not NVFP4";
}

TEST(perf_model_options, refusals) {
  expect_refusal({"decode", "--preset", "gpt"},
                 "--preset: \"gpt\" is not kimi-k2 (61 layers, hidden 7168) or glm-5");
  expect_refusal({"decode", "--hidden", "2881"}, "--hidden 2881 is no multiple of 8");
  expect_refusal({"decode", "--hidden", "16392"}, "--hidden: \"16392\" is not a whole number from 8 to 16384");
  expect_refusal({"fused", "--pattern", "fp8-group", "--hidden", "2880"},
                 "no multiple of 128, as pattern fp8-group");
  expect_refusal({"fused", "--pattern", "nvfp4", "--type", "float"}, "NVFP4 is made of half and bfloat16 only");
  expect_refusal({"decode", "--pattern", "nvfp4", "--unfused"}, "no separate kernel that quantises");
  expect_refusal({"decode", "--pattern", "rms"}, "--pattern: \"rms\" is not one of allreduce, rmsnorm");
  for (const char* list : {"", ",", "1,", "0", "1,x", "1 2", "65537"})
    expect_refusal({"decode", "--tokens", list}, "is not numbers from 1 to 65536 with commas between them");
  expect_refusal({"decode", "--type", "int32"}, "is not half, bfloat16 or float");
  expect_refusal({"fused", "--layers", "3"}, "\"--layers\" is not an option here");
  expect_refusal({"decode", "-b", "8"}, "is not an option here");
}

}  // namespace
}  // namespace xyl
