// SPDX-License-Identifier: BSD-3-Clause
//
// xylAllReduce on device memory through the ABI, between processes that share a GPU (or have one each): eager
// calls, graphs, streams, and what a user sees when a rank is killed, late, aborted or calls something else.
// Skipped where there is no GPU. Works with and without MPS; without, the ranks take turns and each call costs
// milliseconds.
#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "abi/ranks.hpp"
#include "base/clock.hpp"
#include "tests/gpu/local_ranks.hpp"

namespace xyl::test {
namespace {

class device : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU here";
  }
};

// Rank r uses device r % devices, like a program that was given all of them.
void choose_device(int rank) {
  int devices = 0;
  cuda(cudaGetDeviceCount(&devices));
  cuda(cudaSetDevice(rank % devices));
}

void with_device_ranks(int ranks, const std::function<void(int, test_communicator&)>& body,
                       int limit_ms = 120'000) {
  const auto ends = forked_ranks(
      ranks,
      [&](int rank, meeting& m) {
        choose_device(rank);
        test_communicator comm(ranks, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        int number = -1;
        ASSERT_EQ(xylCommDevice(comm, &number), xylSuccess);
        ASSERT_GE(number, 0) << "the communicator has no device";
        body(rank, comm);
        // Nobody ends while another still needs its memory.
        m.wait();
      },
      limit_ms);
  for (int r = 0; r < ranks; ++r) EXPECT_TRUE(ends[r].good()) << "rank " << r << ": " << ends[r].text();
}

class buffer {
 public:
  explicit buffer(std::vector<float> content) : count_(content.size()) {
    cuda(cudaMalloc(&data_, std::max<std::size_t>(count_, 1) * sizeof(float)));
    cuda(cudaMemcpy(data_, content.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
  }
  ~buffer() { (void)cudaFree(data_); }
  buffer(const buffer&) = delete;
  float* data() const { return static_cast<float*>(data_); }
  std::size_t count() const { return count_; }
  void fill(float value) { *this = std::vector<float>(count_, value); }
  std::vector<float> content() const {
    std::vector<float> out(count_);
    cuda(cudaMemcpy(out.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  void operator=(const std::vector<float>& content) {
    cuda(cudaMemcpy(data_, content.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
  }
  void* data_ = nullptr;
  std::size_t count_;
};

std::vector<float> pattern(int rank, std::size_t count) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i)
    v[i] = static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(rank)) % 13);
  return v;
}

void expect_sum(const std::vector<float>& got, int ranks, float factor = 1) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    float want = 0;
    for (int r = 0; r < ranks; ++r) want += static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(r)) % 13);
    ASSERT_EQ(got[i], want * factor) << "element " << i << " of " << got.size();
  }
}

TEST_F(device, eager_calls_of_all_sizes_on_two_streams_give_the_sum) {
  for (int ranks : {1, 2, 4})
    with_device_ranks(ranks, [&](int rank, test_communicator& comm) {
      cudaStream_t streams[2];
      for (cudaStream_t& s : streams) cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      int call = 0;
      for (std::size_t count : {0, 1, 5, 1000, 7168, 100'003, 3'000'001}) {
        const buffer in(pattern(rank, count)), out(std::vector<float>(count, -1));
        for (int times = 0; times < 3; ++times)
          ASSERT_EQ(xylAllReduce(in.data(), out.data(), count, xylFloat32, xylSum, comm, streams[call++ % 2]),
                    xylSuccess)
              << xylGetLastError(comm);
        cuda(cudaDeviceSynchronize());
        expect_sum(out.content(), ranks);
      }
    });
}

TEST_F(device, graphs_of_different_sizes_alternate_with_eager_calls) {
  constexpr int ranks = 2;
  with_device_ranks(ranks, [&](int rank, test_communicator& comm) {
    cudaStream_t stream;
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const std::size_t counts[] = {100, 9000, 400'000};
    std::vector<std::unique_ptr<buffer>> in, out;
    cudaGraphExec_t graphs[3];
    for (int g = 0; g < 3; ++g) {
      in.push_back(std::make_unique<buffer>(pattern(rank, counts[g])));
      out.push_back(std::make_unique<buffer>(std::vector<float>(counts[g], -1)));
      cudaGraph_t graph;
      cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < 2 + g; ++i)
        ASSERT_EQ(xylAllReduce(in[g]->data(), out[g]->data(), counts[g], xylFloat32, xylSum, comm, stream),
                  xylSuccess)
            << xylGetLastError(comm);
      cuda(cudaStreamEndCapture(stream, &graph));
      cuda(cudaGraphInstantiate(&graphs[g], graph, 0));
      cuda(cudaGraphDestroy(graph));
    }
    for (int round = 0; round < 6; ++round) {
      for (auto& o : out) o->fill(-1);
      cuda(cudaGraphLaunch(graphs[round % 3], stream));
      ASSERT_EQ(xylAllReduce(in[0]->data(), out[0]->data(), counts[0], xylFloat32, xylSum, comm, stream),
                xylSuccess);
      cuda(cudaGraphLaunch(graphs[(round + 1) % 3], stream));
      cuda(cudaStreamSynchronize(stream));
      for (int g : {0, round % 3, (round + 1) % 3}) expect_sum(out[g]->content(), ranks);
      xylResult_t error = xylInternalError;
      ASSERT_EQ(xylCommGetAsyncError(comm, &error), xylSuccess);
      ASSERT_EQ(error, xylSuccess) << xylGetLastError(comm);
    }
  });
}

TEST_F(device, pinned_memory_is_device_memory_and_mixing_with_host_memory_is_refused) {
  with_device_ranks(2, [&](int rank, test_communicator& comm) {
    const std::size_t count = 300;
    void* memory = nullptr;
    cuda(cudaMallocHost(&memory, count * sizeof(float)));
    float* const pinned = static_cast<float*>(memory);
    const buffer in(pattern(rank, count));
    ASSERT_EQ(xylAllReduce(in.data(), pinned, count, xylFloat32, xylSum, comm, nullptr), xylSuccess)
        << xylGetLastError(comm);
    cuda(cudaDeviceSynchronize());
    expect_sum(std::vector<float>(pinned, pinned + count), 2);
    std::vector<float> host(count);
    EXPECT_EQ(xylAllReduce(in.data(), host.data(), count, xylFloat32, xylSum, comm, nullptr), xylInvalidArgument);
    EXPECT_NE(std::strstr(xylGetLastError(comm), "host memory"), nullptr) << xylGetLastError(comm);
    host = pattern(rank, count);
    ASSERT_EQ(xylAllReduce(host.data(), host.data(), count, xylFloat32, xylSum, comm, nullptr), xylSuccess);
    expect_sum(host, 2);
    cuda(cudaFreeHost(memory));
  });
}

TEST_F(device, pointer_given_to_a_communicator_without_a_device_is_refused_with_the_reason) {
  ::setenv("XYLEM_GPU", "never", 1);
  const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
    choose_device(rank);
    const buffer in(pattern(rank, 100)), out(std::vector<float>(100, 7));
    test_communicator comm(2, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    EXPECT_EQ(xylAllReduce(in.data(), out.data(), 100, xylFloat32, xylSum, comm, nullptr), xylInvalidArgument);
    EXPECT_NE(std::strstr(xylGetLastError(comm), "XYLEM_GPU=never"), nullptr) << xylGetLastError(comm);
    EXPECT_EQ(xylBarrier(comm, nullptr), xylSuccess);
  });
  ::unsetenv("XYLEM_GPU");
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

// Until the communicator reports something; the streams must become idle by themselves.
xylResult_t call_until_error(xylComm_t comm, const buffer& in, const buffer& out, cudaStream_t stream) {
  for (;;) {
    xylResult_t code = xylAllReduce(in.data(), out.data(), in.count(), xylFloat32, xylSum, comm, stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    if (code == xylSuccess) {
      EXPECT_EQ(xylCommGetAsyncError(comm, &code), xylSuccess);
    }
    if (code != xylSuccess) return code;
  }
}

TEST_F(device, killed_rank_in_mid_allreduce_is_named_within_a_second) {
  for (int ranks : {2, 4}) {
    const int victim = ranks - 1;
    const auto ends = forked_ranks(
        ranks,
        [&](int rank, meeting& m) {
          choose_device(rank);
          test_communicator comm(ranks, rank, m);
          ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
          const buffer in(pattern(rank, 50'000)), out(std::vector<float>(50'000, -1));
          m.wait();
          if (rank == victim) {
            std::thread([] {
              ::usleep(300'000);
              ::kill(::getpid(), SIGKILL);
            }).detach();
            call_until_error(comm, in, out, nullptr);
            FAIL() << "should have been killed";
          }
          const std::int64_t began = now_ns();
          EXPECT_EQ(call_until_error(comm, in, out, nullptr), xylRemoteError);
          EXPECT_LT(now_ns() - began, 1'300'000'000);
          EXPECT_EQ(xylAllReduce(in.data(), out.data(), in.count(), xylFloat32, xylSum, comm, nullptr),
                    xylRemoteError);
          const std::string who = "rank " + std::to_string(victim);
          EXPECT_NE(std::strstr(xylGetLastError(comm), who.c_str()), nullptr) << xylGetLastError(comm);
          cuda(cudaDeviceSynchronize());  // the context is unharmed
        },
        30'000);
    for (int r = 0; r < ranks; ++r) {
      if (r == victim)
        EXPECT_EQ(ends[static_cast<std::size_t>(r)].signal, SIGKILL);
      else
        EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good())
            << r << ": " << ends[static_cast<std::size_t>(r)].text();
    }
  }
}

TEST_F(device, mismatched_count_is_invalid_usage_on_all_ranks_with_outputs_untouched) {
  for (int ranks : {2, 4})
    for (std::size_t count : {100, 30'000, 1'000'000})
      with_device_ranks(ranks, [&](int rank, test_communicator& comm) {
        const std::size_t mine = rank == 0 ? count + 1 : count;
        const buffer in(pattern(rank, mine)), out(std::vector<float>(mine, 7));
        ASSERT_EQ(xylAllReduce(in.data(), out.data(), mine, xylFloat32, xylSum, comm, nullptr), xylSuccess);
        cuda(cudaDeviceSynchronize());
        xylResult_t error = xylSuccess;
        ASSERT_EQ(xylCommGetAsyncError(comm, &error), xylSuccess);
        EXPECT_EQ(error, xylInvalidUsage);
        for (float x : out.content()) ASSERT_EQ(x, 7);
        EXPECT_EQ(xylAllReduce(in.data(), out.data(), mine, xylFloat32, xylSum, comm, nullptr), xylInvalidUsage);
        EXPECT_NE(std::strstr(xylGetLastError(comm), "differ"), nullptr) << xylGetLastError(comm);
      });
}

TEST_F(device, rank_that_never_comes_is_a_timeout_that_names_it) {
  ::setenv("XYLEM_TIMEOUT", "1", 1);
  with_device_ranks(3, [&](int rank, test_communicator& comm) {
    const buffer in(pattern(rank, 1000)), out(std::vector<float>(1000, 7));
    if (rank == 1) ::sleep(2);
    ASSERT_EQ(xylAllReduce(in.data(), out.data(), 1000, xylFloat32, xylSum, comm, nullptr), xylSuccess);
    cuda(cudaDeviceSynchronize());
    // The others have gone when the late one comes.
    const xylResult_t expected = rank == 1 ? xylRemoteError : xylTimeout;
    xylResult_t error = xylSuccess;
    ASSERT_EQ(xylCommGetAsyncError(comm, &error), xylSuccess);
    EXPECT_EQ(error, expected);
    EXPECT_EQ(xylAllReduce(in.data(), out.data(), 1000, xylFloat32, xylSum, comm, nullptr), expected);
    EXPECT_NE(std::strstr(xylGetLastError(comm), "rank 1"), nullptr) << xylGetLastError(comm);
  });
  ::unsetenv("XYLEM_TIMEOUT");
}

TEST_F(device, abort_ends_a_graph_of_many_calls_quickly) {
  with_device_ranks(2, [&](int rank, test_communicator& comm) {
    if (rank == 1) {
      ::usleep(300'000);
      EXPECT_EQ(xylCommAbort(comm), xylSuccess);
      return;
    }
    const buffer in(pattern(rank, 1000)), out(std::vector<float>(1000, 7));
    cudaStream_t stream;
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 122; ++i)
      ASSERT_EQ(xylAllReduce(in.data(), out.data(), 1000, xylFloat32, xylSum, comm, stream), xylSuccess);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphInstantiate(&executable, graph, 0));
    const std::int64_t began = now_ns();
    cuda(cudaGraphLaunch(executable, stream));
    cuda(cudaStreamSynchronize(stream));
    EXPECT_LT(now_ns() - began, 2'000'000'000);
    xylResult_t error = xylSuccess;
    ASSERT_EQ(xylCommGetAsyncError(comm, &error), xylSuccess);
    EXPECT_EQ(error, xylRemoteError);
  });
}

TEST_F(device, communicators_are_made_and_destroyed_without_leaking_device_memory) {
  with_device_ranks(
      2, [&](int, test_communicator&) {}, 60'000);
  const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
    choose_device(rank);
    std::size_t before = 0, after = 0, total = 0;
    for (int i = 0; i < 12; ++i) {
      {
        test_communicator comm(2, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
      }
      m.wait();
      if (i == 2) cuda(cudaMemGetInfo(&before, &total));
    }
    cuda(cudaMemGetInfo(&after, &total));
    m.wait();
    // Retired memory of the last round or two may still be there; nine rounds of it may not.
    EXPECT_LT(before > after ? before - after : 0, std::size_t{3} * 48 << 20);
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

}  // namespace
}  // namespace xyl::test
