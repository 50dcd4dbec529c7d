// SPDX-License-Identifier: BSD-3-Clause
//
// Long messages on host memory with and without single copy, between processes: the same bytes, buffers that are
// changed at once after a call, a peer that dies while its buffer is read, a buffer that cannot be read. Where the
// system does not let processes read each other, both ways are the staged one, and must pass all the same.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "abi/ranks.hpp"
#include "base/clock.hpp"
#include "os/process_memory.hpp"
#include "proto/call.hpp"

namespace xyl::test {
namespace {

using bytes = std::vector<unsigned char>;

unsigned char byte_of(int rank, std::size_t round, std::size_t i) {
  return static_cast<unsigned char>(mix64(round * 64 + static_cast<unsigned>(rank) + 1) + i * 31 + (i >> 9));
}
void fill(unsigned char* to, std::size_t n, int rank, std::size_t round) {
  for (std::size_t i = 0; i < n; ++i) to[i] = byte_of(rank, round, i);
}
void expect(const unsigned char* got, std::size_t n, int rank, std::size_t round, std::size_t first = 0) {
  for (std::size_t i = 0; i < n; ++i)
    ASSERT_EQ(got[i], byte_of(rank, round, first + i)) << "round " << round << ", byte " << i << " from " << rank;
}

class long_messages : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { ::setenv("XYLEM_SINGLE_COPY", std::get<1>(GetParam()), 1); }
  void TearDown() override { ::unsetenv("XYLEM_SINGLE_COPY"); }
  int ranks() const { return std::get<0>(GetParam()); }
};

constexpr std::size_t sizes[] = {65'535, 65'536, 65'543, 1'300'003};

TEST_P(long_messages, are_the_same_bytes_whichever_way_they_go) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    const auto all = static_cast<std::size_t>(ranks()), mine = static_cast<std::size_t>(rank);
    std::size_t round = 0;
    for (const std::size_t n : sizes)
      for (const bool in_place : {false, true}) {
        const int root = static_cast<int>(++round % all);
        bytes a(all * n + 3), b(all * n + 3, 0xee);
        unsigned char *in = a.data() + 1, *out = in_place ? in : b.data() + 2;
        // allgather
        unsigned char* own = in_place ? out + mine * n : in;
        fill(own, n, rank, round);
        ASSERT_EQ(xylAllGather(own, out, n, xylInt8, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        for (int p = 0; p < ranks(); ++p) expect(out + static_cast<std::size_t>(p) * n, n, p, round);
        // alltoall
        fill(in, all * n, rank, ++round);
        ASSERT_EQ(xylAlltoAll(in, out, n, xylInt8, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        for (int p = 0; p < ranks(); ++p) expect(out + static_cast<std::size_t>(p) * n, n, p, round, mine * n);
        // broadcast
        if (rank == root)
          fill(in, n, rank, ++round);
        else
          ++round;
        ASSERT_EQ(xylBroadcast(in, out, n, xylInt8, root, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        expect(out, n, root, round);
        // scatter
        if (rank == root)
          fill(in, all * n, rank, ++round);
        else
          ++round;
        out = in_place && rank == root ? in + mine * n : b.data() + 2;
        ASSERT_EQ(xylScatter(in, out, n, xylInt8, root, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        expect(out, n, root, round, mine * n);
        // gather
        out = b.data() + 2;
        own = in_place && rank == root ? out + mine * n : in;
        fill(own, n, rank, ++round);
        ASSERT_EQ(xylGather(own, out, n, xylInt8, root, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        for (int p = 0; rank == root && p < ranks(); ++p)
          expect(out + static_cast<std::size_t>(p) * n, n, p, round);
      }
  });
}

TEST_P(long_messages, go_round_in_groups_and_from_pair_to_pair) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    const int next = (rank + 1) % ranks(), previous = (rank + ranks() - 1) % ranks();
    std::size_t round = 0;
    for (const std::size_t n : sizes) {
      bytes in(2 * n), out(2 * n);
      fill(in.data(), 2 * n, rank, ++round);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      for (const std::size_t half : {std::size_t{0}, n}) {
        EXPECT_EQ(xylSend(in.data() + half, n, xylInt8, next, comm, nullptr), xylSuccess);
        EXPECT_EQ(xylRecv(out.data() + half, n, xylInt8, previous, comm, nullptr), xylSuccess);
      }
      ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(comm);
      expect(out.data(), 2 * n, previous, round);
      // A short one, a long one and a short one, of which the first two are changed at once.
      for (const std::size_t length : {std::size_t{5}, n, std::size_t{40'000}}) {
        ++round;
        if (rank == 0) {
          fill(in.data(), length, rank, round);
          ASSERT_EQ(xylSend(in.data(), length, xylInt8, 1, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        } else if (rank == 1) {
          ASSERT_EQ(xylRecv(out.data(), length, xylInt8, 0, comm, nullptr), xylSuccess) << xylGetLastError(comm);
          expect(out.data(), length, 0, round);
        }
      }
    }
  });
}

TEST_P(long_messages, leave_the_buffer_to_its_owner_when_the_call_returns) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 200'000;
    bytes buffer(n);
    for (std::size_t round = 0; round < 60; ++round) {
      const int root = static_cast<int>(round % static_cast<std::size_t>(ranks()));
      if (rank == root) fill(buffer.data(), n, rank, round);
      ASSERT_EQ(xylBroadcast(buffer.data(), buffer.data(), n, xylInt8, root, comm, nullptr), xylSuccess);
      if (rank == root)
        std::memset(buffer.data(), 0, n);
      else
        expect(buffer.data(), n, root, round);
    }
  });
}

// The victim dies while others read its buffer, or wait for it.
TEST_P(long_messages, of_a_killed_rank_end_within_a_second_and_name_it) {
  const int victim = ranks() - 1;
  const auto ends = forked_ranks(
      ranks(),
      [&](int rank, meeting& m) {
        test_communicator comm(ranks(), rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        constexpr std::size_t n = 8'000'000;
        bytes in(n, 1), out(n * static_cast<unsigned>(ranks()));
        std::thread killer;
        if (rank == victim)
          killer = std::thread([] {
            ::usleep(150'000);
            ::kill(::getpid(), SIGKILL);
          });
        xylResult_t code = xylSuccess;
        std::int64_t began = 0;
        while (code == xylSuccess) {
          began = now_ns();
          code = xylAllGather(in.data(), out.data(), n, xylInt8, comm, nullptr);
        }
        EXPECT_EQ(code, xylRemoteError) << xylGetLastError(comm);
        EXPECT_LT(now_ns() - began, 1'000'000'000);
        EXPECT_TRUE(says(xylGetLastError(comm), ("rank " + std::to_string(victim)).c_str()))
            << xylGetLastError(comm);
      },
      30'000);
  for (int r = 0; r < ranks(); ++r) {
    if (r == victim)
      EXPECT_EQ(ends[static_cast<std::size_t>(r)].signal, SIGKILL);
    else
      EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good()) << ends[static_cast<std::size_t>(r)].text();
  }
}

TEST_P(long_messages, that_differ_are_refused_with_outputs_untouched) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    const std::size_t n = 100'000 + (rank == 1);
    bytes in(n, 1), out(n * static_cast<unsigned>(ranks()), 7);
    EXPECT_EQ(xylAllGather(in.data(), out.data(), n, xylInt8, comm, nullptr), xylInvalidUsage);
    for (const unsigned char c : out) ASSERT_EQ(c, 7);
  });
}

INSTANTIATE_TEST_SUITE_P(host, long_messages,
                         testing::Combine(testing::Values(2, 3), testing::Values("always", "never")),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<0>(info.param)) + "_ranks";
                         });

TEST(a_buffer, that_cannot_be_read_is_an_error_that_names_its_owner) {
  int ours = 5, copy = 0;
  if (read_process_memory(::getpid(), &copy, reinterpret_cast<std::uintptr_t>(&ours), sizeof ours) != sizeof ours)
    GTEST_SKIP() << "this system does not let processes read each other";
  ::setenv("XYLEM_SINGLE_COPY", "always", 1);
  with_ranks(2, [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 16 << 20;
    void* const hole = ::mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(hole, MAP_FAILED);
    bytes out(n);
    void* const buffer = rank == 1 ? hole : out.data();
    EXPECT_EQ(xylBroadcast(buffer, buffer, n, xylInt8, 1, comm, nullptr), xylSystemError);
    EXPECT_TRUE(says(xylGetLastError(comm), "rank 1")) << xylGetLastError(comm);
    const char* const what = rank == 0 ? "rank 0 could not read the buffer" : "out of service";
    EXPECT_TRUE(says(xylGetLastError(comm), what)) << xylGetLastError(comm);
    EXPECT_EQ(xylBarrier(comm, nullptr), xylSystemError);
    ::munmap(hole, n);
  });
  ::unsetenv("XYLEM_SINGLE_COPY");
}

}  // namespace
}  // namespace xyl::test
