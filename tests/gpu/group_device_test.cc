// SPDX-License-Identifier: BSD-3-Clause
//
// Several ranks of one process on one GPU (or one each), driven by one thread in groups: on one stream, which
// without groups would be a deadlock, in graphs, with sends and receives on several streams, and split. Skipped
// where there is no GPU.
#include <algorithm>
#include <vector>

#include "tests/gpu/local_ranks.hpp"

namespace xyl::test {
namespace {

class device_group : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

// Each rank's floats, and room for as many.
class device_ranks : public local_device_ranks {
 public:
  device_ranks(int ranks, std::size_t count)
      : local_device_ranks(ranks, 2 * count * sizeof(float)), count_(count) {}

  float* input(int rank) { return reinterpret_cast<float*>(memory[static_cast<std::size_t>(rank)]); }
  float* output(int rank) { return input(rank) + count_; }
  void fill() {
    for (int r = 0; r < ranks(); ++r) {
      std::vector<float> values(2 * count_, -1.0f);
      for (std::size_t i = 0; i < count_; ++i) values[i] = static_cast<float>(r + 1 + static_cast<int>(i % 100));
      use(r);
      cuda(cudaMemcpy(input(r), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
  }
  std::vector<float> result(int rank) {
    std::vector<float> values(count_);
    use(rank);
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemcpy(values.data(), output(rank), count_ * sizeof(float), cudaMemcpyDeviceToHost));
    return values;
  }
  void expect_sums() {
    for (int r = 0; r < ranks(); ++r) {
      const std::vector<float> got = result(r);
      for (std::size_t i = 0; i < count_; ++i)
        ASSERT_EQ(got[i], static_cast<float>(ranks() * (ranks() + 1) / 2 + ranks() * static_cast<int>(i % 100)))
            << "rank " << r << " element " << i;
    }
  }
  xylResult_t all_reduce_everywhere(xylStream_t stream) {
    EXPECT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks(); ++r)
      EXPECT_EQ(
          xylAllReduce(input(r), output(r), count_, xylFloat32, xylSum, comms[static_cast<std::size_t>(r)], stream),
          xylSuccess);
    return xylGroupEnd();
  }

 private:
  std::size_t count_;
};

TEST_P(device_group, on_the_default_streams_is_no_deadlock) {
  for (std::size_t count : {std::size_t{3}, std::size_t{2'000'000}})
    in_a_process([&] {
      device_ranks all(GetParam(), count);
      for (cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread}) {
        all.fill();
        ASSERT_EQ(all.all_reduce_everywhere(stream), xylSuccess) << xylGetLastError(nullptr);
        all.expect_sums();
      }
    });
}

TEST_P(device_group, is_captured_into_a_graph) {
  in_a_process([&] {
    device_ranks all(GetParam(), 5000);
    if (!all.on_one_device()) return;  // a graph of several devices needs streams of each; see the eager test
    all.use(0);
    cudaStream_t stream;
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraph_t graph;
    cudaGraphExec_t runnable;
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ASSERT_EQ(all.all_reduce_everywhere(stream), xylSuccess) << xylGetLastError(nullptr);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphInstantiate(&runnable, graph, 0));
    for (int round = 0; round < 5; ++round) {
      all.fill();
      cuda(cudaGraphLaunch(runnable, stream));
      all.expect_sums();
    }
    cuda(cudaGraphExecDestroy(runnable));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(stream));
  });
}

TEST_P(device_group, sends_around_a_ring_and_to_itself_on_two_streams) {
  constexpr std::size_t count = 3'000'000;
  in_a_process([&] {
    device_ranks all(GetParam(), count);
    all.fill();
    const int ranks = all.ranks();
    // Half of the ring's message goes to the next rank, the other half to the sender itself.
    std::vector<cudaStream_t> sending(all.comms.size()), receiving(all.comms.size());
    for (int r = 0; r < ranks; ++r) {
      all.use(r);
      cuda(cudaStreamCreateWithFlags(&sending[static_cast<std::size_t>(r)], cudaStreamNonBlocking));
      cuda(cudaStreamCreateWithFlags(&receiving[static_cast<std::size_t>(r)], cudaStreamNonBlocking));
    }
    constexpr std::size_t half = count / 2;
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const int next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
      EXPECT_EQ(xylSend(all.input(r), half, xylFloat32, next, all.comms[at], sending[at]), xylSuccess);
      EXPECT_EQ(xylRecv(all.output(r), half, xylFloat32, previous, all.comms[at], receiving[at]), xylSuccess);
      EXPECT_EQ(xylSend(all.input(r) + half, half, xylFloat32, r, all.comms[at], sending[at]), xylSuccess);
      EXPECT_EQ(xylRecv(all.output(r) + half, half, xylFloat32, r, all.comms[at], receiving[at]), xylSuccess);
    }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float> got = all.result(r);
      const int previous = (r + ranks - 1) % ranks;
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(got[i], static_cast<float>((i < half ? previous : r) + 1 + static_cast<int>(i % 100)))
            << r << " " << i;
    }
    for (std::size_t r = 0; r < all.comms.size(); ++r) {
      cuda(cudaStreamDestroy(sending[r]));
      cuda(cudaStreamDestroy(receiving[r]));
    }
  });
}

TEST_P(device_group, of_splits_keeps_the_devices) {
  in_a_process([&] {
    constexpr std::size_t count = 1000;
    device_ranks all(GetParam(), count);
    all.fill();
    std::vector<xylComm_t> parts(all.comms.size());
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < all.ranks(); ++r)
      EXPECT_EQ(
          xylCommSplit(all.comms[static_cast<std::size_t>(r)], 0, -r, &parts[static_cast<std::size_t>(r)], nullptr),
          xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      int before = -2, after = -2;
      EXPECT_EQ(xylCommDevice(all.comms[r], &before), xylSuccess);
      EXPECT_EQ(xylCommDevice(parts[r], &after), xylSuccess);
      EXPECT_EQ(before, after);
    }
    std::swap(parts, all.comms);
    ASSERT_EQ(all.all_reduce_everywhere(nullptr), xylSuccess) << xylGetLastError(nullptr);
    all.expect_sums();
    std::swap(parts, all.comms);
    for (xylComm_t part : parts) EXPECT_EQ(xylCommDestroy(part), xylSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, device_group, testing::Values(2, 4));

}  // namespace
}  // namespace xyl::test
