// SPDX-License-Identifier: BSD-3-Clause
//
// xylSend and xylRecv on host memory through the ABI, between processes: all sizes in order, both directions, many
// pairs at once, between collectives; and what the two see when they do not fit together, or one is gone.
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "abi/ranks.hpp"
#include "base/clock.hpp"
#include "proto/call.hpp"

namespace xyl::test {
namespace {

std::vector<unsigned char> message(int from, int to, std::size_t number, std::size_t bytes) {
  std::vector<unsigned char> m(bytes);
  const std::uint64_t seed = mix64(number * 64 + static_cast<unsigned>(from * 8 + to));
  for (std::size_t i = 0; i < bytes; ++i) m[i] = static_cast<unsigned char>(mix64(seed + i));
  return m;
}

void send(xylComm_t comm, int rank, int peer, std::size_t number, std::size_t bytes) {
  const auto m = message(rank, peer, number, bytes);
  ASSERT_EQ(xylSend(m.data(), bytes, xylUint8, peer, comm, nullptr), xylSuccess) << xylGetLastError(comm);
}
void receive(xylComm_t comm, int rank, int peer, std::size_t number, std::size_t bytes) {
  std::vector<unsigned char> got(bytes + 128, 0xa5);
  ASSERT_EQ(xylRecv(got.data() + 64, bytes, xylUint8, peer, comm, nullptr), xylSuccess) << xylGetLastError(comm);
  const auto want = message(peer, rank, number, bytes);
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], i < 64 || i >= bytes + 64 ? 0xa5 : want[i - 64]) << "byte " << i << " of " << bytes;
}

constexpr std::size_t sizes[] = {0, 1, 7, 8, 112, 495, 496, 497, 4096, 65'535, 65'536, 65'537, 300'000, 3'000'001};

TEST(send_and_receive, carry_every_size_in_order) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    std::size_t number = 0;
    for (int times = 0; times < 3; ++times)
      for (const std::size_t bytes : sizes) {
        ++number;
        if (rank == static_cast<int>(number % 2))
          send(comm, rank, 1 - rank, number, bytes);
        else
          receive(comm, rank, 1 - rank, number, bytes);
        if (testing::Test::HasFatalFailure()) return;
      }
  });
}

// Small ones are on their way before the receiver looks.
TEST(send_and_receive, do_not_wait_for_each_other_while_the_ring_has_room) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    for (std::size_t i = 0; i < 50; ++i) {
      for (std::size_t k = 0; k < 8; ++k) send(comm, rank, 1 - rank, k, 100 * k);
      for (std::size_t k = 0; k < 8; ++k) receive(comm, rank, 1 - rank, k, 100 * k);
    }
  });
}

TEST(send_and_receive, of_all_pairs_mix_with_collectives_of_all) {
  constexpr int ranks = 4;
  with_ranks(ranks, [&](int rank, test_communicator& comm) {
    for (std::size_t number = 0; number < 60; ++number) {
      const std::size_t bytes = number * 3001 % 100'000;
      const int distance = 1 + static_cast<int>(number) % (ranks - 1);
      const int to = (rank + distance) % ranks, from = (rank - distance + ranks) % ranks;
      // Somebody has to begin by receiving.
      if (rank < to) {
        send(comm, rank, to, number, bytes);
        receive(comm, rank, from, number, bytes);
      } else {
        receive(comm, rank, from, number, bytes);
        send(comm, rank, to, number, bytes);
      }
      if (number % 7 == 0) {
        std::int64_t one = 1;
        ASSERT_EQ(xylAllReduce(&one, &one, 1, xylInt64, xylSum, comm, nullptr), xylSuccess);
        ASSERT_EQ(one, ranks);
      }
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(send_and_receive, that_differ_are_refused_with_the_output_untouched) {
  for (const bool by_type : {false, true})
    for (const std::size_t count : {4, 4000, 4'000'000})
      with_ranks(2, [&](int rank, test_communicator& comm) {
        std::vector<std::int32_t> data(count + 1, rank);
        if (rank == 0) {
          // A short one has gone before the receiver looks; the next call says it.
          xylResult_t code = xylSend(data.data(), count, xylInt32, 1, comm, nullptr);
          const std::int64_t began = now_ns();
          while (code == xylSuccess && now_ns() - began < 10'000'000'000)
            ASSERT_EQ(xylCommGetAsyncError(comm, &code), xylSuccess);
          EXPECT_EQ(code, xylInvalidUsage);
        } else {
          EXPECT_EQ(
              xylRecv(data.data(), by_type ? count : count + 1, by_type ? xylUint32 : xylInt32, 0, comm, nullptr),
              xylInvalidUsage);
          EXPECT_TRUE(says(xylGetLastError(comm), "recv of")) << xylGetLastError(comm);
          for (const std::int32_t x : data) ASSERT_EQ(x, 1);
        }
        EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
      });
}

TEST(receive_from_a_rank_that_is_killed, fails_within_a_second) {
  const auto ends = forked_ranks(
      2,
      [&](int rank, meeting& m) {
        test_communicator comm(2, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        if (rank == 1) {
          ::usleep(50'000);
          ::kill(::getpid(), SIGKILL);
        }
        char c = 0;
        EXPECT_EQ(xylRecv(&c, 1, xylInt8, 1, comm, nullptr), xylRemoteError);
        EXPECT_TRUE(says(xylGetLastError(comm), "rank 1")) << xylGetLastError(comm);
      },
      20'000);
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

TEST(receive_that_nobody_sends, times_out_and_says_who) {
  ::setenv("XYLEM_TIMEOUT", "0.3", 1);
  with_ranks(2, [&](int rank, test_communicator& comm) {
    if (rank == 0) {
      char c = 0;
      EXPECT_EQ(xylRecv(&c, 1, xylInt8, 1, comm, nullptr), xylTimeout);
      EXPECT_TRUE(says(xylGetLastError(comm), "rank 1") && says(xylGetLastError(comm), "recv of 1 int8"))
          << xylGetLastError(comm);
    } else {
      ::usleep(1'000'000);
    }
  });
  ::unsetenv("XYLEM_TIMEOUT");
}

TEST(send_to_oneself, needs_somebody_to_receive_it) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    char c = 0;
    EXPECT_EQ(xylSend(&c, 1, xylInt8, rank, comm, nullptr), xylInvalidUsage);
    EXPECT_EQ(xylRecv(&c, 1, xylInt8, rank, comm, nullptr), xylInvalidUsage);
    EXPECT_EQ(xylBarrier(comm, nullptr), xylSuccess);
  });
}

}  // namespace
}  // namespace xyl::test
