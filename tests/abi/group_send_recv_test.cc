// SPDX-License-Identifier: BSD-3-Clause
//
// Sends and receives in groups: rings and exchanges that would be deadlocks one by one, in any order, to itself, of
// several ranks of one thread, beside collectives, and what does not fit together.
#include <cstdint>
#include <vector>

#include "abi/id_ranks.hpp"

namespace xyl::test {
namespace {

// Larger than what a pair's ring holds, so that a send alone would wait for its receiver.
constexpr std::size_t large = 1 << 20;

std::vector<std::int64_t> message(int from, int to, std::size_t count, int salt = 0) {
  std::vector<std::int64_t> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<std::int64_t>(i) * 64 * 64 * 64 + salt * 64 * 64 + from * 64 + to;
  return data;
}

xylResult_t send(xylComm_t comm, const std::vector<std::int64_t>& data, int to) {
  return xylSend(data.data(), data.size(), xylInt64, to, comm, nullptr);
}

xylResult_t receive(xylComm_t comm, std::vector<std::int64_t>& data, int from) {
  return xylRecv(data.data(), data.size(), xylInt64, from, comm, nullptr);
}

TEST(group_send_recv, around_a_ring_of_large_messages_is_no_deadlock) {
  for (int ranks : {2, 4})
    with_ranks(ranks, [&](int rank, test_communicator& comm) {
      const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
      for (std::size_t count : {std::size_t{1}, large}) {
        std::vector<std::int64_t> got(count);
        const auto mine = message(rank, next, count);
        ASSERT_EQ(xylGroupStart(), xylSuccess);
        ASSERT_EQ(send(comm, mine, next), xylSuccess);
        ASSERT_EQ(receive(comm, got, previous), xylSuccess);
        ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
        EXPECT_EQ(got, message(previous, rank, count));
      }
    });
}

// Everybody with everybody, each rank in an order of its own, with itself too, and a collective in between.
TEST(group_send_recv, of_all_pairs_in_any_order_with_itself_and_a_collective) {
  constexpr int ranks = 4;
  with_ranks(ranks, [](int rank, test_communicator& comm) {
    for (int round = 0; round < 6; ++round) {
      const std::size_t count = round % 2 == 0 ? 3 : 50'000;
      std::vector<std::vector<std::int64_t>> mine, got;
      for (int r = 0; r < ranks; ++r) {
        mine.push_back(message(rank, r, count + static_cast<unsigned>(rank), round));
        got.emplace_back(count + static_cast<unsigned>(r));
      }
      sum_of_ranks sum(ranks, rank);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      for (int i = 0; i < ranks; ++i) {
        const int to = (rank * (round + 1) + i) % ranks, from = (i * 3 + round) % ranks;
        ASSERT_EQ(send(comm, mine[static_cast<std::size_t>(to)], to), xylSuccess) << xylGetLastError(comm);
        if (i == rank) {
          ASSERT_EQ(sum.call(comm), xylSuccess);
        }
        ASSERT_EQ(receive(comm, got[static_cast<std::size_t>(from)], from), xylSuccess) << xylGetLastError(comm);
      }
      ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
      sum.expect_right();
      for (int r = 0; r < ranks; ++r)
        ASSERT_EQ(got[static_cast<std::size_t>(r)], message(r, rank, count + static_cast<unsigned>(r), round)) << r;
    }
  });
}

TEST(group_send_recv, of_several_ranks_of_one_thread) {
  in_a_process([] {
    constexpr int ranks = 3;
    xylComm_t comms[ranks];
    ASSERT_EQ(xylCommInitAll(comms, ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
    std::vector<std::vector<std::int64_t>> mine, got(ranks, std::vector<std::int64_t>(large));
    for (int r = 0; r < ranks; ++r) mine.push_back(message(r, (r + 1) % ranks, large));
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r)
      ASSERT_EQ(send(comms[r], mine[static_cast<std::size_t>(r)], (r + 1) % ranks), xylSuccess);
    for (int r = 0; r < ranks; ++r)
      ASSERT_EQ(receive(comms[r], got[static_cast<std::size_t>(r)], (r + ranks - 1) % ranks), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(got[static_cast<std::size_t>((r + 1) % ranks)], mine[static_cast<std::size_t>(r)]);
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

TEST(group_send_recv, keeps_the_order_of_messages_of_one_pair) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    std::vector<std::vector<std::int64_t>> sent, got;
    for (int i = 0; i < 5; ++i) {
      const std::size_t count = i % 2 == 0 ? 100'000 : 7;
      sent.push_back(message(rank, 1 - rank, count, i));
      got.emplace_back(count);
    }
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (auto& one : got) ASSERT_EQ(receive(comm, one, 1 - rank), xylSuccess);
    for (const auto& one : sent) ASSERT_EQ(send(comm, one, 1 - rank), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (int i = 0; i < 5; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(got[at], message(1 - rank, rank, got[at].size(), i)) << i;
    }
  });
}

TEST(group_send_recv, of_a_rank_to_itself_has_to_fit) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    std::vector<std::int64_t> from = message(rank, rank, 10), to(10, 7);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(send(comm, from, rank), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "come in pairs")) << xylGetLastError(nullptr);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(send(comm, from, rank), xylSuccess);
    ASSERT_EQ(xylRecv(to.data(), 9, xylInt64, rank, comm, nullptr), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "send of 10")) << xylGetLastError(nullptr);
    EXPECT_EQ(to, std::vector<std::int64_t>(10, 7));
    // Nobody else noticed.
    expect_sum(comm, 2, rank);
  });
}

TEST(group_send_recv, with_wrong_arguments_runs_nothing) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    std::vector<std::int64_t> from = message(rank, 1 - rank, 10), to(10, 7);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(send(comm, from, 1 - rank), xylSuccess);
    EXPECT_EQ(receive(comm, to, 2), xylInvalidArgument);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "peer 2")) << xylGetLastError(nullptr);
    EXPECT_EQ(to, std::vector<std::int64_t>(10, 7));
    expect_sum(comm, 2, rank);
  });
}

}  // namespace
}  // namespace xyl::test
