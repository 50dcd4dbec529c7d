// SPDX-License-Identifier: BSD-3-Clause
//
// xylCommSplit: who is together with whom in which order, splits of splits, and what goes wrong.
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

void expect_place(xylComm_t comm, int ranks, int rank) {
  int count = 0, number = -1;
  EXPECT_EQ(xylCommCount(comm, &count), xylSuccess);
  EXPECT_EQ(xylCommUserRank(comm, &number), xylSuccess);
  EXPECT_EQ(count, ranks);
  EXPECT_EQ(number, rank);
  expect_sum(comm, ranks, rank);
}

xylComm_t split(xylComm_t comm, int color, int key) {
  xylComm_t made = reinterpret_cast<xylComm_t>(1);
  EXPECT_EQ(xylCommSplit(comm, color, key, &made, nullptr), xylSuccess) << xylGetLastError(comm);
  return made;
}

TEST(split, groups_ranks_by_color_in_the_order_of_their_keys) {
  constexpr int ranks = 6;
  with_ranks(ranks, [](int rank, test_communicator& comm) {
    // Two colors of different sizes, keys that turn the order around, equal keys among them.
    const int color = rank < 2 ? 70'000 : 0;
    const xylComm_t reversed = split(comm, color, -rank);
    expect_place(reversed, rank < 2 ? 2 : 4, rank < 2 ? 1 - rank : 5 - rank);
    const xylComm_t in_order = split(comm, rank % 3, 7);
    expect_place(in_order, 2, rank / 3);
    // The parent is as it was.
    expect_sum(comm, ranks, rank);
    EXPECT_EQ(xylCommDestroy(reversed), xylSuccess);
    expect_sum(in_order, 2, rank / 3);
    EXPECT_EQ(xylCommDestroy(in_order), xylSuccess);
  });
}

TEST(split, gives_nothing_to_ranks_without_a_color) {
  constexpr int ranks = 4;
  with_ranks(ranks, [](int rank, test_communicator& comm) {
    const xylComm_t some = split(comm, rank == 1 ? XYL_SPLIT_NOCOLOR : 3, rank);
    if (rank == 1)
      EXPECT_EQ(some, nullptr);
    else
      expect_place(some, 3, rank == 0 ? 0 : rank - 1);
    const xylComm_t nobody = split(comm, XYL_SPLIT_NOCOLOR, 0);
    EXPECT_EQ(nobody, nullptr);
    expect_sum(comm, ranks, rank);
    EXPECT_EQ(xylCommDestroy(some), xylSuccess);
  });
}

TEST(split, of_a_split_works_after_its_parent_is_destroyed) {
  constexpr int ranks = 4;
  with_ranks(ranks, [](int rank, test_communicator& comm) {
    const xylComm_t half = split(comm, rank / 2, rank);
    comm.destroy();
    expect_place(half, 2, rank % 2);
    const xylComm_t alone = split(half, rank % 2, 0);
    expect_place(alone, 1, 0);
    const xylComm_t again = split(half, 0, -rank);
    expect_place(again, 2, 1 - rank % 2);
    for (xylComm_t c : {half, alone, again}) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

TEST(split, many_times_in_a_row) {
  constexpr int ranks = 4;
  with_ranks(ranks, [](int rank, test_communicator& comm) {
    for (int round = 0; round < 25; ++round) {
      const xylComm_t part = split(comm, (rank >> round % 2) & 1, round % 3 == 0 ? -rank : rank);
      int count = 0, number = -1;
      EXPECT_EQ(xylCommCount(part, &count), xylSuccess);
      EXPECT_EQ(xylCommUserRank(part, &number), xylSuccess);
      ASSERT_EQ(count, 2);
      expect_sum(part, 2, number);
      EXPECT_EQ(xylCommDestroy(part), xylSuccess);
    }
  });
}

TEST(split, works_between_threads) {
  in_a_process([] {
    xylComm_t all[4];
    ASSERT_EQ(xylCommInitAll(all, 4, nullptr), xylSuccess) << xylGetLastError(nullptr);
    std::vector<std::thread> running;
    for (int rank = 0; rank < 4; ++rank)
      running.emplace_back([&, rank] {
        const xylComm_t part = split(all[rank], rank % 2, rank);
        expect_place(part, 2, rank / 2);
        EXPECT_EQ(xylCommDestroy(part), xylSuccess);
      });
    for (std::thread& one : running) one.join();
    for (xylComm_t c : all) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

TEST(split, has_its_name_in_front_of_its_errors) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    xylConfig_t config = XYL_CONFIG_INITIALIZER;
    config.commName = "pipeline";
    xylComm_t named = nullptr;
    ASSERT_EQ(xylCommSplit(comm, 0, rank, &named, &config), xylSuccess);
    EXPECT_EQ(xylAllReduce(nullptr, nullptr, 1, xylInt8, xylSum, named, nullptr), xylInvalidArgument);
    EXPECT_EQ(std::string(xylGetLastError(named)).find("pipeline: "), 0u) << xylGetLastError(named);
    EXPECT_EQ(xylCommDestroy(named), xylSuccess);
  });
}

TEST(split, refuses_wrong_arguments_without_asking_others) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    xylComm_t made = reinterpret_cast<xylComm_t>(1);
    EXPECT_EQ(xylCommSplit(comm, 0, 0, nullptr, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommSplit(comm, -2, 0, &made, nullptr), xylInvalidArgument);
    EXPECT_EQ(made, nullptr);
    EXPECT_TRUE(says(xylGetLastError(comm), "color is -2")) << xylGetLastError(comm);
    EXPECT_EQ(xylCommSplit(nullptr, 0, 0, &made, nullptr), xylInvalidArgument);
    for (xylConfig_t wrong :
         {xylConfig_t{0, 1, 0, nullptr}, xylConfig_t{1 << 20, 1, 0, nullptr},
          xylConfig_t{sizeof(xylConfig_t), 2, 0, nullptr}, xylConfig_t{sizeof(xylConfig_t), 1, -1, nullptr}})
      EXPECT_EQ(xylCommSplit(comm, 0, 0, &made, &wrong), xylInvalidArgument);
    expect_sum(comm, 2, rank);
  });
}

TEST(split, against_another_call_is_invalid_usage_on_all_ranks) {
  const auto ends = forked_ranks(3, [](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    xylComm_t made = reinterpret_cast<xylComm_t>(1);
    if (rank == 1)
      EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
    else
      EXPECT_EQ(xylCommSplit(comm, 0, 0, &made, nullptr), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "split")) << xylGetLastError(comm);
    if (rank != 1) {
      EXPECT_EQ(made, nullptr);
    }
    m.wait();
  });
  expect_good(ends);
}

TEST(split, whose_rank_never_comes_is_a_timeout_that_names_it) {
  const environment limit("XYLEM_TIMEOUT", "0.5");
  expect_good(forked_ranks(3, [](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    if (rank != 2) {
      xylComm_t made = nullptr;
      EXPECT_EQ(xylCommSplit(comm, 0, 0, &made, nullptr), xylTimeout);
      EXPECT_TRUE(says(xylGetLastError(comm), "rank 2")) << xylGetLastError(comm);
    }
    m.wait();
  }));
}

TEST(split, whose_rank_is_killed_is_a_remote_error_within_a_second) {
  const auto ends = forked_ranks(3, [](int rank, meeting& m) {
    test_communicator comm(3, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    if (rank == 1) {
      ::usleep(200'000);
      ::kill(::getpid(), SIGKILL);
    }
    const std::int64_t began = now_ns();
    xylComm_t made = nullptr;
    EXPECT_EQ(xylCommSplit(comm, rank, 0, &made, nullptr), xylRemoteError);
    EXPECT_LT(now_ns() - began, 1'200'000'000);
    EXPECT_TRUE(says(xylGetLastError(comm), "rank 1")) << xylGetLastError(comm);
  });
  EXPECT_EQ(ends[1].signal, SIGKILL);
  for (std::size_t r : {0u, 2u}) EXPECT_TRUE(ends[r].good()) << ends[r].text();
}

// One rank's environment has become wrong since the parent was made: its color fails, the other does not, and the
// parent goes on.
TEST(split, that_one_rank_cannot_follow_fails_for_its_color_alone) {
  with_ranks(4, [](int rank, test_communicator& comm) {
    if (rank == 3) ::setenv("XYLEM_ALGO", "fastest", 1);
    xylComm_t made = nullptr;
    const xylResult_t code = xylCommSplit(comm, rank / 2, 0, &made, nullptr);
    EXPECT_EQ(code, rank == 3 ? xylInvalidUsage : rank == 2 ? xylRemoteError : xylSuccess);
    if (rank >= 2) {
      EXPECT_TRUE(says(xylGetLastError(comm), "XYLEM_ALGO")) << xylGetLastError(comm);
    }
    ::unsetenv("XYLEM_ALGO");
    if (rank < 2) {
      expect_place(made, 2, rank);
      EXPECT_EQ(xylCommDestroy(made), xylSuccess);
    }
    expect_sum(comm, 4, rank);
    const xylComm_t later = split(comm, 0, 0);
    expect_place(later, 4, rank);
    EXPECT_EQ(xylCommDestroy(later), xylSuccess);
  });
}

}  // namespace
}  // namespace xyl::test
