// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce on host memory, through the ABI, between processes.
#include <gtest/gtest.h>

#include <cstdlib>

#include "abi/fused_call.hpp"
#include "abi/ranks.hpp"

namespace xyl::test {
namespace {

template <class T>
void call_and_check(const fused_case& f, int rank, int ranks, xylComm_t comm) {
  SCOPED_TRACE("pattern " + std::to_string(static_cast<int>(f.pattern)) + ", " + std::to_string(f.tokens) + " x " +
               std::to_string(f.hidden));
  fused_data<T> d(f, rank, ranks);
  ASSERT_EQ(fused_call(d)(comm), xylSuccess) << xylGetLastError(comm);
  EXPECT_EQ(d.check(), "");
  EXPECT_EQ(d.check_untouched(), "");
}

TEST(FusedAbi, EveryPattern) {
  for (const int ranks : {1, 2, 3})
    with_ranks(ranks, [ranks](int rank, test_communicator& comm) {
      for (int pattern = xylFusedAllReduce; pattern <= xylFusedNvfp4Swizzled128x4; ++pattern) {
        fused_case f;
        f.pattern = static_cast<fused_pattern>(pattern);
        f.hidden = 256;
        f.tokens = 3;
        f.seed = static_cast<unsigned>(pattern) + 5;
        f.gemma = pattern % 2;
        f.weight_is_float = pattern % 3 == 0;
        f.in_place = pattern % 2;
        call_and_check<bfloat16>(f, rank, ranks, comm);
        call_and_check<float16>(f, rank, ranks, comm);
        if (pattern < xylFusedNvfp4Linear) call_and_check<float>(f, rank, ranks, comm);
        f.residual_sharded = pattern != xylFusedAllReduce;
        f.in_place = false;
        f.tokens = 5;
        call_and_check<bfloat16>(f, rank, ranks, comm);
      }
    });
}

TEST(FusedAbi, SmallAndLargeRowsAndManyTokens) {
  with_ranks(4, [](int rank, test_communicator& comm) {
    fused_case f;
    for (const unsigned hidden : {8u, 120u, 2880u, 7168u, 16384u}) {
      f.hidden = hidden;
      f.tokens = 2;
      call_and_check<bfloat16>(f, rank, 4, comm);
    }
    // More than a launch holds, in both forms.
    f.hidden = 1024;
    f.tokens = 701;
    f.pattern = fused_pattern::fp8_per_token;
    call_and_check<bfloat16>(f, rank, 4, comm);
    f.tokens = 0;
    call_and_check<bfloat16>(f, rank, 4, comm);
  });
}

TEST(FusedAbi, EitherFormIfItIsForced) {
  for (const char* algorithm : {"oneshot", "twoshot"}) {
    ASSERT_EQ(setenv("XYLEM_ALGO", algorithm, 1), 0);
    with_ranks(3, [](int rank, test_communicator& comm) {
      fused_case f;
      f.hidden = 520;
      f.tokens = 50;
      f.pattern = fused_pattern::fp8_static;
      call_and_check<float16>(f, rank, 3, comm);
    });
  }
  unsetenv("XYLEM_ALGO");
}

TEST(FusedAbi, MixtureOfExperts) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    for (const bool table : {true, false}) {
      fused_case f;
      f.hidden = 640;
      f.tokens = 7;
      f.experts = 8;
      f.expert_table = table;
      f.in_place = table;
      call_and_check<bfloat16>(f, rank, 2, comm);
      f.pattern = fused_pattern::nvfp4_linear;
      f.residual_sharded = true;
      call_and_check<float16>(f, rank, 2, comm);
    }
  });
}

TEST(FusedAbi, CallsThatDifferAreRefusedOnAllRanks) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    fused_case f;
    f.hidden = 64;
    f.eps = rank == 0 ? 1e-5f : 1e-6f;
    fused_data<bfloat16> d(f, rank, 2);
    EXPECT_EQ(fused_call(d)(comm), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "fused allreduce of 1 x 64 bfloat16")) << xylGetLastError(comm);
    EXPECT_TRUE(says(xylGetLastError(comm), "eps")) << xylGetLastError(comm);
    EXPECT_TRUE(d.output.untouched_from(0) && d.residual_out.untouched_from(0));
  });
}

// Every wrong combination, in words that name what is wrong; the communicator stays good.
TEST(FusedAbi, WrongArgumentsAreRefusedWithASentence) {
  with_ranks(1, [](int, test_communicator& comm) {
    fused_case f;
    f.hidden = 256;
    f.tokens = 2;
    f.pattern = fused_pattern::nvfp4_linear;
    fused_data<bfloat16> d(f, 0, 1);
    const fused_call good(d);
    const auto refused = [&](const char* part, auto change) {
      fused_call c = good;
      change(c);
      EXPECT_EQ(c(comm), xylInvalidArgument) << part;
      EXPECT_TRUE(says(xylGetLastError(comm), part)) << xylGetLastError(comm) << " says nothing of " << part;
    };
    const auto moved = [](void* p, std::size_t bytes) { return static_cast<void*>(static_cast<char*>(p) + bytes); };

    refused("args->size is 8", [](fused_call& c) { c.args.size = 8; });
    refused("args->size", [](fused_call& c) { c.args.size = std::size_t{1} << 40; });
    refused("not a pattern", [](fused_call& c) { c.args.pattern = static_cast<xylFusedPattern_t>(7); });
    refused("not a pattern", [](fused_call& c) { c.args.pattern = static_cast<xylFusedPattern_t>(-1); });
    refused("float64", [](fused_call& c) { c.args.type = xylFloat64; });
    refused("no data type", [](fused_call& c) { c.args.type = static_cast<xylDataType_t>(999); });
    refused("cannot quantise float32", [](fused_call& c) { c.args.type = c.args.weight_type = xylFloat32; });
    refused("weight_type is float16", [](fused_call& c) { c.args.weight_type = xylFloat16; });
    refused("hidden is 0", [](fused_call& c) { c.args.hidden = 0; });
    refused("hidden is 16392", [](fused_call& c) { c.args.hidden = 16392; });
    refused("hidden is 2881", [](fused_call& c) { c.args.hidden = 2881; });
    refused("multiple of 16", [](fused_call& c) { c.args.hidden = 264; });
    refused("multiple of 128", [](fused_call& c) {
      c.args.pattern = xylFusedFp8PerGroup128;
      c.args.hidden = 192;
    });
    refused("exceed the address space", [](fused_call& c) { c.args.tokens = SIZE_MAX / 256; });
    refused("eps is -1", [](fused_call& c) { c.args.eps = -1; });
    refused("eps is nan", [](fused_call& c) { c.args.eps = std::nanf(""); });
    refused("eps is inf", [](fused_call& c) { c.args.eps = INFINITY; });
    refused("input is NULL", [](fused_call& c) { c.args.input = nullptr; });
    refused("weight is NULL", [](fused_call& c) { c.args.weight = nullptr; });
    refused("scale is NULL", [](fused_call& c) { c.args.scale = nullptr; });
    refused("quantised is NULL", [](fused_call& c) { c.args.quantised = nullptr; });
    refused("scales is NULL", [](fused_call& c) { c.args.scales = nullptr; });
    refused("quantised is given", [](fused_call& c) { c.args.pattern = xylFusedResidualRMSNorm; });
    refused("scales is given", [](fused_call& c) { c.args.pattern = xylFusedFp8Static; });
    refused("residual is given", [](fused_call& c) { c.args.pattern = xylFusedAllReduce; });
    refused("output is NULL", [](fused_call& c) {
      c.args.pattern = xylFusedResidualRMSNorm;
      c.args.output = c.args.quantised = c.args.scales = nullptr;
    });
    refused("residual_sharded", [](fused_call& c) {
      c.args.pattern = xylFusedAllReduce;
      c.args.residual = nullptr;
      c.args.residual_out = c.args.quantised = c.args.scales = nullptr;
      c.args.residual_sharded = 1;
    });
    refused("input is not aligned", [&](fused_call& c) { c.args.input = moved(d.input.raw(), 2); });
    refused("quantised is not aligned", [&](fused_call& c) { c.args.quantised = moved(d.quantised.raw(), 8); });
    refused("scale is not aligned",
            [&](fused_call& c) { c.args.scale = static_cast<float*>(moved(d.scale.raw(), 2)); });
    refused("output and input overlap", [&](fused_call& c) { c.args.output = moved(d.input.raw(), 512); });
    refused("output and residual_out overlap", [&](fused_call& c) { c.args.residual_out = c.args.output; });
    refused("quantised and input overlap", [&](fused_call& c) { c.args.quantised = d.input.raw(); });
    refused("scales and weight overlap", [&](fused_call& c) { c.args.scales = d.weight.raw(); });
    EXPECT_EQ(xylAllReduceRMSNorm(nullptr, comm, nullptr), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(comm), "args is NULL"));

    EXPECT_TRUE(d.output.untouched_from(0) && d.quantised.untouched_from(0) && d.residual_out.untouched_from(0));
    EXPECT_EQ(good(comm), xylSuccess) << xylGetLastError(comm);
    EXPECT_EQ(d.check(), "");
  });
}

TEST(FusedAbi, WrongMixturesAreRefusedWithASentence) {
  with_ranks(1, [](int, test_communicator& comm) {
    fused_case f;
    f.hidden = 64;
    f.tokens = 2;
    f.experts = 2;
    fused_data<bfloat16> d(f, 0, 1);
    const fused_call good(d);
    const auto refused = [&](const char* part, auto change) {
      fused_call c = good;
      change(c);
      EXPECT_EQ(c(comm), xylInvalidArgument) << part;
      EXPECT_TRUE(says(xylGetLastError(comm), part)) << xylGetLastError(comm) << " says nothing of " << part;
    };
    refused("moe->size", [](fused_call& c) { c.moe.size = 0; });
    refused("experts_per_token is 0", [](fused_call& c) { c.moe.experts_per_token = 0; });
    refused("experts_per_token is 65", [](fused_call& c) { c.moe.experts_per_token = 65; });
    refused("below 2^31", [](fused_call& c) { c.moe.expert_rows = std::size_t{1} << 31; });
    refused("weights is NULL", [](fused_call& c) { c.moe.weights = nullptr; });
    refused("expert_output is NULL", [](fused_call& c) { c.moe.expert_output = nullptr; });
    refused("without `rows`", [](fused_call& c) {
      c.moe.rows = nullptr;
      c.moe.expert_rows = 3;
    });
    refused("output and expert_output overlap", [&](fused_call& c) { c.args.output = d.expert_output.raw(); });
    EXPECT_EQ(xylMoeAllReduceRMSNorm(nullptr, &good.args, comm, nullptr), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(comm), "moe is NULL"));

    // Without a shared expert.
    fused_call none = good;
    none.args.input = nullptr;
    EXPECT_EQ(none(comm), xylSuccess) << xylGetLastError(comm);
  });
}

// A caller with a newer header that asks for nothing new.
TEST(FusedAbi, ALongerStructureIsUnderstoodIfTheRestIsZero) {
  with_ranks(1, [](int, test_communicator& comm) {
    fused_case f;
    f.hidden = 64;
    fused_data<bfloat16> d(f, 0, 1);
    struct {
      xylAllReduceRMSNormArgs_t known;
      std::uint64_t later;
    } longer{fused_call(d).args, 0};
    longer.known.size = sizeof longer;
    EXPECT_EQ(xylAllReduceRMSNorm(&longer.known, comm, nullptr), xylSuccess) << xylGetLastError(comm);
    EXPECT_EQ(d.check(), "");
    longer.later = 1;
    EXPECT_EQ(xylAllReduceRMSNorm(&longer.known, comm, nullptr), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(comm), "not zero")) << xylGetLastError(comm);
  });
}

}  // namespace
}  // namespace xyl::test
