// SPDX-License-Identifier: BSD-3-Clause
//
// What a user sees when a rank misbehaves: killed, late, gone, calling something else, aborting. Each test is named
// after its symptom; liveness comes first, so every one has a limit.
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

class killed_rank : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

TEST_P(killed_rank, in_mid_allreduce_is_named_within_a_second) {
  const auto [ranks, count] = GetParam();
  const int victim = ranks - 1;
  const auto ends = forked_ranks(
      ranks,
      [&, ranks = ranks, count = count](int rank, meeting& m) {
        test_communicator comm(ranks, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        std::vector<float> data(count, 1.0f);
        std::thread killer;
        if (rank == victim)
          killer = std::thread([] {
            ::usleep(100'000);
            ::kill(::getpid(), SIGKILL);
          });
        xylResult_t code = xylSuccess;
        std::int64_t began = 0;
        while (code == xylSuccess) {
          began = now_ns();
          code = xylAllReduce(data.data(), data.data(), count, xylFloat32, xylMax, comm, nullptr);
        }
        EXPECT_EQ(code, xylRemoteError);
        EXPECT_LT(now_ns() - began, 1'000'000'000);
        const std::string who = "rank " + std::to_string(victim);
        EXPECT_TRUE(says(xylGetLastError(comm), who.c_str())) << xylGetLastError(comm);
        xylResult_t later = xylSuccess;
        EXPECT_EQ(xylCommGetAsyncError(comm, &later), xylSuccess);
        EXPECT_EQ(later, xylRemoteError);
        EXPECT_EQ(xylBarrier(comm, nullptr), xylRemoteError);
      },
      20'000);
  for (int r = 0; r < ranks; ++r) {
    if (r == victim)
      EXPECT_EQ(ends[static_cast<std::size_t>(r)].signal, SIGKILL);
    else
      EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good())
          << r << ": " << ends[static_cast<std::size_t>(r)].text();
  }
}

INSTANTIATE_TEST_SUITE_P(host, killed_rank,
                         testing::Combine(testing::Values(2, 4), testing::Values(2, 4000, 400'000)));

// The process of every rank, by number.
std::vector<pid_t> processes_of(int ranks, int rank, meeting& m) {
  const pid_t own = ::getpid();
  std::vector<pid_t> all(static_cast<std::size_t>(ranks));
  EXPECT_EQ(m.allgather(rank)(&own, all.data(), sizeof own), 0);
  return all;
}

// Rank 2 is held while rank 1 dies and rank 0 leaves because of that: it must not blame rank 0.
TEST(killed_rank_of_three, is_named_also_by_who_looks_after_another_has_left) {
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    const std::vector<pid_t> all = processes_of(3, rank, m);
    if (rank == 2) {
      ::raise(SIGSTOP);
    } else if (rank == 1) {
      ::usleep(100'000);
      ::kill(::getpid(), SIGKILL);
    }
    EXPECT_EQ(xylBarrier(comm, nullptr), xylRemoteError);
    EXPECT_TRUE(says(xylGetLastError(comm), "rank 1 (process")) << xylGetLastError(comm);
    EXPECT_TRUE(says(xylGetLastError(comm), "which is gone")) << xylGetLastError(comm);
    if (rank == 0 && ::fork() == 0) {
      for (int fd = 3; fd < 1024; ++fd) ::close(fd);  // rank 0's end must be seen
      ::usleep(100'000);
      ::kill(all[2], SIGCONT);
      ::_exit(0);
    }
    if (rank == 0) ::_exit(testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (int r : {0, 2}) EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good()) << r;
}

// Rank 0 waits for rank 2, and that, from a little later on, for rank 1, which has stopped.
TEST(stopped_rank, is_named_also_by_who_waits_for_another_that_waits_for_it) {
  const environment limit("XYLEM_TIMEOUT", "1");
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    const std::vector<pid_t> all = processes_of(3, rank, m);
    if (rank == 1) {
      ::raise(SIGSTOP);
      return;
    }
    if (rank == 2) ::usleep(100'000);
    float x = 0;
    EXPECT_EQ(xylRecv(&x, 1, xylFloat32, rank == 0 ? 2 : 1, comm, nullptr), xylTimeout);
    EXPECT_TRUE(says(xylGetLastError(comm), "rank 1 (process")) << xylGetLastError(comm);
    if (rank == 2) ::kill(all[1], SIGCONT);
  });
  for (int r = 0; r < 3; ++r) EXPECT_TRUE(ends[static_cast<std::size_t>(r)].good()) << r;
}

TEST(mismatched_count, is_invalid_usage_on_all_ranks_with_outputs_untouched) {
  for (int ranks : {2, 3, 4})
    for (std::size_t count : {4, 1000, 300'000})
      with_ranks(ranks, [&](int rank, test_communicator& comm) {
        const std::size_t mine = rank == ranks - 1 ? count + 1 : count;
        std::vector<float> in(mine, 1.0f), out(mine, 7.0f);
        EXPECT_EQ(xylAllReduce(in.data(), out.data(), mine, xylFloat32, xylSum, comm, nullptr), xylInvalidUsage);
        EXPECT_TRUE(says(xylGetLastError(comm), "differ")) << xylGetLastError(comm);
        for (float x : out) ASSERT_EQ(x, 7.0f);
        EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
      });
}

TEST(mismatched_call, of_any_kind_is_invalid_usage_and_both_calls_are_named) {
  struct call {
    xylDataType_t type;
    xylRedOp_t op;
    bool barrier;
  };
  for (const call& other :
       {call{xylInt32, xylSum, false}, call{xylFloat32, xylMax, false}, call{xylFloat32, xylSum, true}})
    with_ranks(2, [&](int rank, test_communicator& comm) {
      std::vector<float> in(100, 1.0f), out(100, 7.0f);
      xylResult_t code;
      if (rank == 0)
        code = xylAllReduce(in.data(), out.data(), in.size(), xylFloat32, xylSum, comm, nullptr);
      else if (other.barrier)
        code = xylBarrier(comm, nullptr);
      else
        code = xylAllReduce(in.data(), out.data(), in.size(), other.type, other.op, comm, nullptr);
      EXPECT_EQ(code, xylInvalidUsage);
      EXPECT_TRUE(says(xylGetLastError(comm), "rank 0 called") && says(xylGetLastError(comm), "rank 1 called"))
          << xylGetLastError(comm);
      for (float x : out) ASSERT_EQ(x, 7.0f);
    });
}

// Six of eight ranks come to the call too late to see for themselves. Nobody waits for each of them in turn.
TEST(mismatched_call, is_explained_at_once_by_late_ranks_too_and_later_calls_do_not_claim_to_have_differed) {
  constexpr int ranks = 8;
  const auto ends = forked_ranks(ranks, [&](int rank, meeting& m) {
    test_communicator comm(ranks, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    std::vector<float> data(101, 1.0f);
    for (const bool late : {false, true}) {
      if (late == (rank > 0 && rank < ranks - 1)) {
        const std::int64_t began = now_ns();
        EXPECT_EQ(xylAllReduce(data.data(), data.data(), rank == 0 ? 100 : 101, xylFloat32, xylSum, comm, nullptr),
                  xylInvalidUsage);
        EXPECT_LT(now_ns() - began, 600'000'000);
        EXPECT_TRUE(says(xylGetLastError(comm), "allreduce of 100")) << xylGetLastError(comm);
        EXPECT_TRUE(says(xylGetLastError(comm), "allreduce of 101")) << xylGetLastError(comm);
      }
      m.wait();
    }
    EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "barrier #2 was not begun")) << xylGetLastError(comm);
    EXPECT_FALSE(says(xylGetLastError(comm), "called barrier")) << xylGetLastError(comm);
    m.wait();
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

TEST(rank_that_never_comes, is_a_timeout_that_names_it) {
  const environment limit("XYLEM_TIMEOUT", "0.5");
  for (int ranks : {2, 4}) {
    const auto ends = forked_ranks(ranks, [&](int rank, meeting& m) {
      test_communicator comm(ranks, rank, m);
      ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
      if (rank != 1) {
        std::vector<double> data(1000, 1.0);
        EXPECT_EQ(xylAllReduce(data.data(), data.data(), data.size(), xylFloat64, xylSum, comm, nullptr),
                  xylTimeout);
        EXPECT_TRUE(says(xylGetLastError(comm), "rank 1")) << xylGetLastError(comm);
      }
      m.wait();
      // The late one learns that the others have gone.
      if (rank == 1) {
        EXPECT_EQ(xylBarrier(comm, nullptr), xylRemoteError);
        EXPECT_TRUE(says(xylGetLastError(comm), "went on without it")) << xylGetLastError(comm);
      }
    });
    for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
  }
}

TEST(rank_that_has_left, is_reported_instead_of_waited_for) {
  const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
    test_communicator comm(2, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    if (rank == 1) comm.destroy();
    m.wait();
    if (rank == 0) {
      EXPECT_EQ(xylBarrier(comm, nullptr), xylRemoteError);
      EXPECT_TRUE(says(xylGetLastError(comm), "left")) << xylGetLastError(comm);
    }
    m.wait();
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

TEST(destroy, right_after_the_last_call_does_not_disturb_peers) {
  for (int round = 0; round < 20; ++round)
    with_ranks(3, [&](int, test_communicator& comm) {
      std::vector<float> data(2000, 1.0f);
      for (int i = 0; i < 5; ++i)
        ASSERT_EQ(xylAllReduce(data.data(), data.data(), data.size(), xylFloat32, xylMax, comm, nullptr),
                  xylSuccess)
            << xylGetLastError(comm);
      comm.destroy();
    });
}

TEST(abort, from_another_thread_ends_everyones_wait_and_may_be_repeated) {
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    if (rank == 2) {
      ::usleep(50'000);
      EXPECT_EQ(xylCommAbort(comm), xylSuccess);
      EXPECT_EQ(xylCommAbort(comm), xylSuccess);
    } else {
      EXPECT_EQ(xylBarrier(comm, nullptr), xylRemoteError);
      EXPECT_TRUE(says(xylGetLastError(comm), "rank 2")) << xylGetLastError(comm);
    }
    m.wait();
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

}  // namespace
}  // namespace xyl::test
