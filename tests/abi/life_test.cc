// SPDX-License-Identifier: BSD-3-Clause
//
// How communicators begin and end: nonblocking initialisation, alone and in groups; all ranks at once; finalize.
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

xylResult_t await_progress(xylComm_t comm, int limit_ms = 20'000) {
  xylResult_t state = xylInProgress;
  EXPECT_TRUE(eventually(
      [&] {
        EXPECT_EQ(xylCommGetAsyncError(comm, &state), xylSuccess);
        return state != xylInProgress;
      },
      limit_ms));
  return state;
}

xylConfig_t nonblocking() {
  xylConfig_t config = XYL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

TEST(nonblocking, initialisation_is_in_progress_until_all_ranks_have_come) {
  expect_good(forked_ranks(2, [](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 2, m);
    const xylConfig_t config = nonblocking();
    xylComm_t comm = nullptr;
    if (rank == 1) m.wait();
    EXPECT_EQ(xylCommInitRankConfig(&comm, 2, id, rank, &config), xylInProgress);
    ASSERT_NE(comm, nullptr);
    if (rank == 0) {
      xylResult_t state = xylSuccess;
      EXPECT_EQ(xylCommGetAsyncError(comm, &state), xylSuccess);
      EXPECT_EQ(state, xylInProgress);
      int count = 0;
      EXPECT_EQ(xylCommCount(comm, &count), xylInvalidArgument);
      sum_of_ranks early(2, 0);
      EXPECT_EQ(early.call(comm), xylInvalidArgument);
      EXPECT_TRUE(says(xylGetLastError(comm), "has not ended")) << xylGetLastError(comm);
      m.wait();
    }
    ASSERT_EQ(await_progress(comm), xylSuccess) << xylGetLastError(comm);
    expect_sum(comm, 2, rank);
    // And so is a split of it, for whom wants that.
    xylComm_t part = nullptr;
    EXPECT_EQ(xylCommSplit(comm, 0, -rank, &part, &config), xylInProgress);
    ASSERT_EQ(await_progress(part), xylSuccess) << xylGetLastError(part);
    EXPECT_EQ(await_progress(comm), xylSuccess);  // it was busy with that, too
    expect_sum(comm, 2, rank);
    expect_sum(part, 2, 1 - rank);
    EXPECT_EQ(xylCommFinalize(part), xylInProgress);
    EXPECT_EQ(await_progress(part), xylSuccess);
    EXPECT_EQ(xylBarrier(part, nullptr), xylInvalidUsage);
    EXPECT_EQ(xylCommDestroy(part), xylSuccess);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
  }));
}

TEST(nonblocking, initialisation_that_fails_says_so_when_asked) {
  expect_good(forked_ranks(2, [](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 2, m);
    const xylConfig_t config = nonblocking();
    xylComm_t comm = nullptr;
    EXPECT_EQ(xylCommInitRankConfig(&comm, 2 + rank, id, rank, &config), xylInProgress);
    EXPECT_EQ(await_progress(comm), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "as one of 3")) << xylGetLastError(comm);
    EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
    m.wait();
  }));
}

TEST(nonblocking, initialisation_may_be_aborted_and_destroyed_while_others_are_awaited) {
  in_a_process([] {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    const xylConfig_t config = nonblocking();
    for (const bool abort_first : {true, false}) {
      xylComm_t comm = nullptr;
      EXPECT_EQ(xylCommInitRankConfig(&comm, 2, id, 0, &config), xylInProgress);
      const std::int64_t began = now_ns();
      if (abort_first) {
        ::usleep(50'000);
        EXPECT_EQ(xylCommAbort(comm), xylSuccess);
        EXPECT_EQ(xylCommAbort(comm), xylSuccess);
        EXPECT_EQ(await_progress(comm), xylRemoteError);
        EXPECT_TRUE(says(xylGetLastError(comm), "aborted")) << xylGetLastError(comm);
      }
      EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
      EXPECT_LT(now_ns() - began, 5'000'000'000);
    }
  });
}

TEST(nonblocking, initialisation_that_a_rank_aborts_fails_for_the_others) {
  expect_good(forked_ranks(2, [](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 2, m);
    const xylConfig_t config = nonblocking();
    xylComm_t comm = nullptr;
    EXPECT_EQ(xylCommInitRankConfig(&comm, 3, id, rank, &config), xylInProgress);
    ::usleep(100'000);
    if (rank == 1) {
      EXPECT_EQ(xylCommAbort(comm), xylSuccess);
    }
    EXPECT_EQ(await_progress(comm), xylRemoteError);
    if (rank == 0) {
      EXPECT_TRUE(says(xylGetLastError(comm), "rank 1 (process")) << xylGetLastError(comm);
    }
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
    m.wait();
  }));
}

TEST(nonblocking, initialisations_in_a_group_are_in_progress_after_it) {
  in_a_process([] {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    const xylConfig_t config = nonblocking();
    xylComm_t comms[3];
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r) ASSERT_EQ(xylCommInitRankConfig(&comms[r], 3, id, r, &config), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInProgress);
    for (xylComm_t c : comms) ASSERT_EQ(await_progress(c), xylSuccess) << xylGetLastError(c);
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

TEST(init_all, refuses_wrong_arguments) {
  in_a_process([] {
    xylComm_t comms[2] = {reinterpret_cast<xylComm_t>(1), reinterpret_cast<xylComm_t>(1)};
    EXPECT_EQ(xylCommInitAll(nullptr, 2, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommInitAll(comms, 0, nullptr), xylInvalidArgument);
    const int devices[] = {-1, 4096};
    EXPECT_EQ(xylCommInitAll(comms, 2, devices), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "devices[1] is 4096")) << xylGetLastError(nullptr);
    for (xylComm_t c : comms) EXPECT_EQ(c, nullptr);
    const int none[] = {-1, -1};
    ASSERT_EQ(xylCommInitAll(comms, 2, none), xylSuccess) << xylGetLastError(nullptr);
    for (xylComm_t c : comms) {
      int device = 0;
      EXPECT_EQ(xylCommDevice(c, &device), xylSuccess);
      EXPECT_EQ(device, -1);
      EXPECT_EQ(xylCommDestroy(c), xylSuccess);
    }
  });
}

TEST(finalize, ends_communication_but_not_the_communicator) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    expect_sum(comm, 2, rank);
    EXPECT_EQ(xylCommFinalize(comm), xylSuccess);
    EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "finalized")) << xylGetLastError(comm);
    int count = 0;
    EXPECT_EQ(xylCommCount(comm, &count), xylSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(xylCommFinalize(comm), xylInvalidUsage);
    xylComm_t part = nullptr;
    EXPECT_EQ(xylCommSplit(comm, 0, 0, &part, nullptr), xylInvalidUsage);
    EXPECT_EQ(xylCommFinalize(nullptr), xylInvalidArgument);
  });
}

}  // namespace
}  // namespace xyl::test
