// SPDX-License-Identifier: BSD-3-Clause
//
// Groups in which one thread drives all ranks of a communicator on one GPU, where one launch does the work of all:
// random groups of every collective on streams of all kinds against a model, eager and captured; sums of scaled
// inputs, fused calls, and calls that do not fit together. On several GPUs the ranks have launches of their own,
// and the results are the same. Skipped where there is no GPU.
#include <functional>
#include <memory>

#include "abi/fused_call.hpp"
#include "tests/gpu/device_copy.hpp"
#include "tests/gpu/local_ranks.hpp"
#include "tests/support/call_model.hpp"

namespace xyl::test {
namespace {

using gpu_test::must;

class joint_device : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

constexpr std::size_t arena_bytes = 16 << 20, parts = 4, part_bytes = arena_bytes / parts;

class modelled_ranks : public local_device_ranks {
 public:
  modelled_ranks(int ranks, std::uint64_t seed)
      : local_device_ranks(ranks, arena_bytes), model(ranks, arena_bytes, seed), random(seed) {
    for (int r = 0; r < ranks; ++r) {
      use(r);
      cuda(cudaMemcpy(memory[static_cast<std::size_t>(r)], model.arenas[static_cast<std::size_t>(r)].data(),
                      arena_bytes, cudaMemcpyHostToDevice));
      cudaStream_t made = nullptr;
      cuda(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
      streams.push_back(made);
    }
  }
  ~modelled_ranks() {
    for (cudaStream_t s : streams) (void)cudaStreamDestroy(s);
  }

  // One group of up to `parts` calls of all ranks, each on its part of the arenas, on stream(rank).
  template <class Stream>
  void group(std::size_t most_bytes, Stream stream) {
    std::vector<modelled_call> calls;
    for (std::size_t part = random() % parts; part < parts; ++part)
      calls.push_back(random_call(random, ranks(), part * part_bytes, part_bytes, most_bytes));
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      for (const modelled_call& c : calls)
        ASSERT_EQ(issue(c, memory[at], r, ranks(), comms[at], stream(r)), xylSuccess)
            << c.text() << ": " << xylGetLastError(comms[at]);
    }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const modelled_call& c : calls) model.run(c);
    for (const modelled_call& c : calls) text += "\n  " + c.text();
  }
  void expect_as_modelled() {
    for (int r = 0; r < ranks(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      use(r);
      cuda(cudaDeviceSynchronize());
      std::vector<std::uint8_t> got(arena_bytes);
      cuda(cudaMemcpy(got.data(), memory[at], arena_bytes, cudaMemcpyDeviceToHost));
      const auto [mine, theirs] = std::mismatch(got.begin(), got.end(), model.arenas[at].begin());
      ASSERT_TRUE(mine == got.end()) << "rank " << r << " byte " << mine - got.begin() << " is " << int{*mine}
                                     << ", not " << int{*theirs} << "; since the last check:" << text;
    }
    text.clear();
  }

  call_model model;
  std::mt19937_64 random;
  std::vector<cudaStream_t> streams;
  std::string text;
};

TEST_P(joint_device, random_groups_on_streams_of_all_kinds) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed)
    in_a_process([&] {
      modelled_ranks all(GetParam(), seed);
      for (int round = 0; round < 40 && !testing::Test::HasFailure(); ++round) {
        const std::uint64_t kind = all.random() % 4;
        all.group(round % 8 == 0 ? part_bytes : 100'000, [&](int rank) {
          return kind == 0                          ? cudaStream_t{nullptr}
                 : kind == 1                        ? cudaStreamPerThread
                 : kind == 2 && all.on_one_device() ? all.streams[0]
                                                    : all.streams[static_cast<std::size_t>(rank)];
        });
        if (round % 5 == 4) all.expect_as_modelled();
      }
    });
}

TEST_P(joint_device, a_stream_of_another_device_is_refused_with_a_sentence) {
  in_a_process([&] {
    modelled_ranks all(GetParam(), 3);
    if (all.on_one_device()) return;
    const auto call = [&](int r) {
      return xylAllReduce(all.memory[static_cast<std::size_t>(r)], all.memory[static_cast<std::size_t>(r)], 100,
                          xylInt32, xylSum, all.comms[static_cast<std::size_t>(r)], all.streams[0]);
    };
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < all.ranks(); ++r) (void)call(r);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "not of the communicator's device")) << xylGetLastError(nullptr);
  });
}

// Graphs of several sizes, launched in any order.
TEST_P(joint_device, captured_groups_between_eager_ones) {
  in_a_process([&] {
    modelled_ranks all(GetParam(), 5);
    if (!all.on_one_device()) return;  // a graph of several devices is for programs that have streams of each
    all.use(0);
    std::vector<cudaGraphExec_t> graphs;
    std::vector<std::vector<modelled_call>> contents;
    for (const std::size_t groups : {1u, 5u, 12u}) {
      std::vector<modelled_call> calls;
      cudaGraph_t graph;
      cudaGraphExec_t runnable;
      cuda(cudaStreamBeginCapture(all.streams[0], cudaStreamCaptureModeThreadLocal));
      for (std::size_t g = 0; g < groups; ++g) {
        const modelled_call c = random_call(all.random, all.ranks(), 0, arena_bytes, 50'000);
        calls.push_back(c);
        ASSERT_EQ(xylGroupStart(), xylSuccess);
        for (int r = 0; r < all.ranks(); ++r) {
          const auto at = static_cast<std::size_t>(r);
          ASSERT_EQ(issue(c, all.memory[at], r, all.ranks(), all.comms[at], all.streams[0]), xylSuccess);
        }
        ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
      }
      cuda(cudaStreamEndCapture(all.streams[0], &graph));
      cuda(cudaGraphInstantiate(&runnable, graph, 0));
      cuda(cudaGraphDestroy(graph));
      graphs.push_back(runnable);
      contents.push_back(calls);
    }
    for (int round = 0; round < 12 && !testing::Test::HasFailure(); ++round) {
      const std::size_t which = all.random() % graphs.size();
      cuda(cudaGraphLaunch(graphs[which], all.streams[0]));
      // What is captured runs when it is launched.
      for (const modelled_call& c : contents[which]) all.model.run(c);
      all.group(20'000, [&](int) { return all.streams[0]; });
      if (round % 3 == 2) all.expect_as_modelled();
    }
    for (cudaGraphExec_t graph : graphs) cuda(cudaGraphExecDestroy(graph));
  });
}

TEST_P(joint_device, sums_of_scaled_inputs) {
  in_a_process([&] {
    const int ranks = GetParam();
    constexpr std::size_t count = 3'000'001;
    local_device_ranks all(ranks, 2 * count * sizeof(float));
    std::vector<xylRedOp_t> ops(all.comms.size());
    std::vector<float> values(count);
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      float factor = static_cast<float>(r) + 0.5f;
      ASSERT_EQ(xylRedOpCreatePreMulSum(&ops[at], &factor, xylFloat32, xylScalarHostImmediate, all.comms[at]),
                xylSuccess);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i + at) % 50);
      all.use(r);
      cuda(cudaMemcpy(all.memory[at], values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    }
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (std::size_t r = 0; r < all.comms.size(); ++r)
      ASSERT_EQ(xylAllReduce(all.memory[r], all.memory[r] + count * sizeof(float), count, xylFloat32, ops[r],
                             all.comms[r], nullptr),
                xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < ranks; ++r) {
      all.use(r);
      cuda(cudaDeviceSynchronize());
      cuda(cudaMemcpy(values.data(), all.memory[static_cast<std::size_t>(r)] + count * sizeof(float),
                      count * sizeof(float), cudaMemcpyDeviceToHost));
      for (std::size_t i = 0; i < count; ++i) {
        float want = 0;
        for (int p = 0; p < ranks; ++p)
          want += (static_cast<float>(p) + 0.5f) * static_cast<float>((i + static_cast<std::size_t>(p)) % 50);
        ASSERT_EQ(values[i], want) << "rank " << r << " element " << i;
      }
    }
  });
}

TEST_P(joint_device, fused_calls) {
  in_a_process([&] {
    const int ranks = GetParam();
    local_device_ranks all(ranks, 256);
    for (const fused_pattern pattern :
         {fused_pattern::all_reduce, fused_pattern::norm, fused_pattern::fp8_per_token})
      for (const bool in_place : {false, true}) {
        fused_case f;
        f.pattern = pattern;
        f.hidden = 1024;
        f.tokens = 5;
        f.in_place = in_place;
        std::vector<fused_data<bfloat16>> data;
        std::vector<std::unique_ptr<gpu_test::device_copy>> there;
        for (int r = 0; r < ranks; ++r) data.emplace_back(f, r, ranks);
        ASSERT_EQ(xylGroupStart(), xylSuccess);
        for (int r = 0; r < ranks; ++r) {
          all.use(r);
          there.push_back(std::make_unique<gpu_test::device_copy>(data[static_cast<std::size_t>(r)]));
          const fused_call call(data[static_cast<std::size_t>(r)], std::cref(*there.back()));
          ASSERT_EQ(call(all.comms[static_cast<std::size_t>(r)], nullptr), xylSuccess)
              << xylGetLastError(all.comms[static_cast<std::size_t>(r)]);
        }
        ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
        for (int r = 0; r < ranks; ++r) {
          const auto at = static_cast<std::size_t>(r);
          all.use(r);
          cuda(cudaDeviceSynchronize());
          there[at]->copy_back();
          EXPECT_EQ(data[at].check(), "") << "pattern " << static_cast<int>(pattern) << ", in place " << in_place;
          EXPECT_EQ(data[at].check_untouched(), "");
          EXPECT_TRUE(data[at].same_outputs(data[0])) << "rank " << r;
        }
      }
  });
}

// Found before anything is enqueued where the ranks work jointly; the communicator stays usable there.
TEST_P(joint_device, calls_that_differ_are_refused) {
  in_a_process([&] {
    environment limit("XYLEM_TIMEOUT", "5");
    const int ranks = GetParam();
    local_device_ranks all(ranks, 4096);
    if (!all.on_one_device()) return;
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (std::size_t r = 0; r < all.comms.size(); ++r)
      ASSERT_EQ(xylAllReduce(all.memory[r], all.memory[r], r == 1 ? 5 : 6, xylInt32, xylSum, all.comms[r], nullptr),
                xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    const std::string text = xylGetLastError(all.comms[0]);
    EXPECT_NE(text.find("allreduce of 6 int32"), std::string::npos) << text;
    EXPECT_NE(text.find("allreduce of 5 int32"), std::string::npos) << text;
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (std::size_t r = 0; r < all.comms.size(); ++r)
      ASSERT_EQ(xylAllReduce(all.memory[r], all.memory[r], 6, xylInt32, xylSum, all.comms[r], nullptr), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    cuda(cudaDeviceSynchronize());
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, joint_device, testing::Values(2, 3, 4, 8));

}  // namespace
}  // namespace xyl::test
