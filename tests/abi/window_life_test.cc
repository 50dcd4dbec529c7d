// SPDX-License-Identifier: BSD-3-Clause
//
// How registered buffers begin and end: wrong arguments, the order in which things end, ranks that die, and nothing
// left behind.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "abi/window.hpp"

namespace xyl::test {
namespace {

TEST(a_window, takes_wrong_arguments_without_harm) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    void *memory = nullptr, *handle = reinterpret_cast<void*>(1);
    EXPECT_EQ(xylMemAlloc(nullptr, 1, xylMemHost), xylInvalidArgument);
    EXPECT_EQ(xylMemAlloc(&memory, 1, static_cast<xylMemKind_t>(9)), xylInvalidArgument);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(xylMemAlloc(&memory, 0, xylMemHost), xylSuccess);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(xylMemFree(nullptr), xylSuccess);
    EXPECT_EQ(xylMemFree(&memory), xylInvalidArgument);
    EXPECT_EQ(xylMemAlloc(&memory, SIZE_MAX / 2, xylMemHost), xylSystemError);
    EXPECT_EQ(memory, nullptr);
    ASSERT_EQ(xylMemAlloc(&memory, 8192, xylMemHost), xylSuccess);
    EXPECT_EQ(xylMemFree(static_cast<char*>(memory) + 1), xylInvalidArgument);

    EXPECT_EQ(xylCommRegister(comm, nullptr, 1, &handle), xylInvalidArgument);
    EXPECT_EQ(handle, nullptr);
    EXPECT_EQ(xylCommRegister(comm, memory, 0, &handle), xylInvalidArgument);
    EXPECT_EQ(xylCommRegister(comm, memory, 1, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommRegister(nullptr, memory, 1, &handle), xylInvalidArgument);
    EXPECT_EQ(xylCommDeregister(comm, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommDeregister(comm, memory), xylInvalidArgument);

    // What differs leaves everything as it was.
    EXPECT_EQ(xylCommRegister(comm, memory, rank == 0 ? 4096 : 8192, &handle), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "rank 0 registers 4096 bytes of host memory, rank 1 8192"))
        << xylGetLastError(comm);
    EXPECT_EQ(handle, nullptr);
    ASSERT_EQ(xylCommRegister(comm, memory, 4096, &handle), xylSuccess) << xylGetLastError(comm);
    void* second = nullptr;
    // One rank's mistake is told to all.
    const xylResult_t code =
        xylCommRegister(comm, static_cast<char*>(memory) + (rank == 0 ? 4096 : 2048), 4096, &second);
    EXPECT_EQ(code, rank == 1 ? xylInvalidArgument : xylRemoteError);
    EXPECT_TRUE(says(xylGetLastError(comm), "registered already")) << xylGetLastError(comm);
    EXPECT_EQ(xylCommDeregister(comm, handle), xylSuccess);
    EXPECT_EQ(xylCommDeregister(comm, handle), xylInvalidArgument);
    EXPECT_EQ(xylMemFree(memory), xylSuccess);
    EXPECT_EQ(xylMemFree(memory), xylInvalidArgument);
  });
}

TEST(a_window, and_another_call_are_different_calls) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    void *memory = nullptr, *handle = nullptr;
    ASSERT_EQ(xylMemAlloc(&memory, 4096, xylMemHost), xylSuccess);
    EXPECT_EQ(rank == 0 ? xylCommRegister(comm, memory, 4096, &handle) : xylBarrier(comm, nullptr),
              xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "xylCommRegister")) << xylGetLastError(comm);
    EXPECT_EQ(xylMemFree(memory), xylSuccess);
  });
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

// What the allocator may add; AddressSanitizer's keeps what was freed. A window that stayed would do so 990 times.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t mappings_of_allocator = 100;
#else
constexpr std::size_t mappings_of_allocator = 4;
#endif

TEST(windows, come_and_go_a_thousand_times_and_leave_nothing) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 20'000;
    std::size_t mapped = 0;
    int descriptors = 0;
    for (int round = 0; round < 1000; ++round) {
      if (round == 10) {
        mapped = mappings();
        descriptors = open_descriptors();
      }
      shared_buffer_of first(comm, n * sizeof(int)), second(comm, n * sizeof(int));
      int* const in = first.at<int>(0);
      for (std::size_t i = 0; i < n; i += 97) in[i] = rank + round;
      ASSERT_EQ(xylAllReduce(in, second.at<int>(0), n, xylInt32, xylSum, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(second.at<int>(0)[i], i % 97 == 0 ? 1 + 2 * round : 0);
    }
    EXPECT_LE(mappings(), mapped + mappings_of_allocator);
    EXPECT_LE(open_descriptors(), descriptors);
  });
}

TEST(windows, of_several_communicators_end_with_each) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 50'000;
    void *memory = nullptr, *here = nullptr, *there = nullptr;
    ASSERT_EQ(xylMemAlloc(&memory, 2 * n * sizeof(int), xylMemHost), xylSuccess);
    int* const data = static_cast<int*>(memory);
    xylComm_t other = nullptr;
    ASSERT_EQ(xylCommSplit(comm, 0, -rank, &other, nullptr), xylSuccess);
    ASSERT_EQ(xylCommRegister(comm, data, n * sizeof(int), &here), xylSuccess);
    ASSERT_EQ(xylCommRegister(other, data, 2 * n * sizeof(int), &there), xylSuccess) << xylGetLastError(other);
    EXPECT_EQ(xylMemFree(memory), xylInvalidUsage);
    EXPECT_EQ(xylCommDestroy(other), xylSuccess);
    EXPECT_EQ(xylMemFree(memory), xylInvalidUsage);
    for (std::size_t i = 0; i < n; ++i) data[i] = rank;
    ASSERT_EQ(xylAllReduce(data, data, n, xylInt32, xylSum, comm, nullptr), xylSuccess);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(data[i], 1);
    comm.destroy();
    EXPECT_EQ(xylMemFree(memory), xylSuccess) << xylGetLastError(nullptr);
  });
}

// One thread drives all ranks: then any memory is reached, and registering belongs into a group.
TEST(windows, of_one_process_are_of_any_memory) {
  const auto ends = forked_processes(1, [&](int) {
    constexpr int ranks = 3;
    constexpr std::size_t n = 60'000;
    ::setenv("XYLEM_GPU", "never", 1);
    const int none[ranks] = {-1, -1, -1};
    xylComm_t comms[ranks];
    ASSERT_EQ(xylCommInitAll(comms, ranks, none), xylSuccess) << xylGetLastError(nullptr);
    std::vector<std::vector<float>> in(ranks, std::vector<float>(n)), out = in;
    void* handles[ranks] = {};
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(xylCommRegister(comms[r], in[static_cast<std::size_t>(r)].data(), n * sizeof(float), &handles[r]),
                xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(comms[0]);
    EXPECT_EQ(registered(comms[1])[0]["in_place"], true);
    for (int r = 0; r < ranks; ++r)
      for (float& f : in[static_cast<std::size_t>(r)]) f = static_cast<float>(r + 1);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(xylAllReduce(in[static_cast<std::size_t>(r)].data(), out[static_cast<std::size_t>(r)].data(), n,
                             xylFloat32, xylSum, comms[r], nullptr),
                xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(comms[0]);
    for (const auto& got : out)
      for (const float f : got) ASSERT_EQ(f, 6.0f);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r) EXPECT_EQ(xylCommDeregister(comms[r], handles[r]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(comms[0]);
    for (const xylComm_t comm : comms) EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

// The victim dies while its buffers are in use.
TEST(windows, of_a_killed_rank_end_within_a_second) {
  const auto ends = forked_ranks(
      3,
      [&](int rank, meeting& m) {
        test_communicator comm(3, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        constexpr std::size_t n = 4'000'000;
        void *memory = nullptr, *handle = nullptr;
        ASSERT_EQ(xylMemAlloc(&memory, n, xylMemHost), xylSuccess);
        ASSERT_EQ(xylCommRegister(comm, memory, n, &handle), xylSuccess);
        std::thread killer;
        if (rank == 2)
          killer = std::thread([] {
            ::usleep(100'000);
            ::kill(::getpid(), SIGKILL);
          });
        xylResult_t code = xylSuccess;
        while (code == xylSuccess) code = xylAllReduce(memory, memory, n, xylInt8, xylMax, comm, nullptr);
        EXPECT_EQ(code, xylRemoteError) << xylGetLastError(comm);
        EXPECT_TRUE(says(xylGetLastError(comm), "rank 2")) << xylGetLastError(comm);
        EXPECT_EQ(xylCommDeregister(comm, handle), xylRemoteError);
        EXPECT_EQ(xylMemFree(memory), xylSuccess) << xylGetLastError(nullptr);
      },
      20'000);
  for (int r = 0; r < 2; ++r)
    EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good()) << ends[static_cast<std::size_t>(r)].text();
  EXPECT_EQ(ends[2].signal, SIGKILL);
}

}  // namespace
}  // namespace xyl::test
