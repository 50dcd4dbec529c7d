// SPDX-License-Identifier: BSD-3-Clause
//
// Small calls in which a rank that only sends does not wait: results of many of them in a row, and what a user sees
// when the ranks' calls differ though one of them has returned, or both wait for another call of the other.
#include <vector>

#include "abi/ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

// All roots in turn, without the ranks meeting; then a call in which they meet.
TEST(one_way, calls_of_all_kinds_and_sizes_follow_each_other) {
  for (const int ranks : {2, 3, 5})
    with_ranks(ranks, [&](int rank, test_communicator& comm) {
      const auto all = static_cast<std::size_t>(ranks);
      for (int i = 0; i < 400; ++i) {
        const std::size_t count = static_cast<std::size_t>(i) * 7 % 1024;
        const int root = i % ranks;
        const auto value = [&](int of, std::size_t k) {
          return static_cast<std::int32_t>(i * 1000 + of * 100) + static_cast<std::int32_t>(k);
        };
        std::vector<std::int32_t> in(count), many(count * all), out(count, -1), gathered(count * all, -1);
        for (std::size_t k = 0; k < count; ++k) in[k] = value(rank, k);
        for (std::size_t k = 0; k < many.size(); ++k) many[k] = value(root, k);
        ASSERT_EQ(xylBroadcast(in.data(), out.data(), count, xylInt32, root, comm, nullptr), xylSuccess)
            << xylGetLastError(comm);
        for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(out[k], value(root, k));
        ASSERT_EQ(xylScatter(many.data(), out.data(), count, xylInt32, root, comm, nullptr), xylSuccess);
        for (std::size_t k = 0; k < count; ++k)
          ASSERT_EQ(out[k], value(root, static_cast<unsigned>(rank) * count + k));
        ASSERT_EQ(xylGather(in.data(), gathered.data(), count, xylInt32, root, comm, nullptr), xylSuccess);
        ASSERT_EQ(xylReduce(in.data(), out.data(), count, xylInt32, xylMax, root, comm, nullptr), xylSuccess);
        if (rank != root) continue;
        for (std::size_t k = 0; k < gathered.size(); ++k)
          ASSERT_EQ(gathered[k], value(static_cast<int>(k / count), k % count));
        for (std::size_t k = 0; k < count; ++k) ASSERT_EQ(out[k], value(ranks - 1, k));
      }
      EXPECT_EQ(xylBarrier(comm, nullptr), xylSuccess) << xylGetLastError(comm);
    });
}

TEST(one_way, counts_that_differ_are_found_by_the_receiver_and_by_later_calls_of_the_sender) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    std::vector<float> data(11, rank == 0 ? 1.0f : 7.0f);
    const xylResult_t code =
        xylBroadcast(data.data(), data.data(), rank == 0 ? 10 : 11, xylFloat32, 0, comm, nullptr);
    EXPECT_EQ(code, rank == 0 ? xylSuccess : xylInvalidUsage);
    if (rank == 1) {
      EXPECT_TRUE(says(xylGetLastError(comm), "differ")) << xylGetLastError(comm);
      for (const float x : data) EXPECT_EQ(x, 7.0f);
    }
    EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
  });
}

// Each believes to be the root: both return, and nobody has compared anything.
TEST(one_way, roots_that_differ_are_found_where_the_ranks_meet) {
  with_ranks(2, [](int rank, test_communicator& comm) {
    std::vector<float> data(10, 1.0f);
    EXPECT_EQ(xylBroadcast(data.data(), data.data(), data.size(), xylFloat32, rank, comm, nullptr), xylSuccess);
    EXPECT_EQ(xylAllReduce(data.data(), data.data(), data.size(), xylFloat32, xylSum, comm, nullptr),
              xylInvalidUsage);
    for (const float x : data) EXPECT_EQ(x, 1.0f);
  });
}

// One waits for a broadcast, the other in an allreduce: neither will come, and nobody waits for the deadline.
TEST(one_way, a_call_in_which_the_ranks_meet_instead_of_one_in_which_they_do_not_is_found_soon) {
  for (const int root : {0, 1})
    with_ranks(2, [root](int rank, test_communicator& comm) {
      std::vector<float> data(10, 1.0f);
      const std::int64_t began = now_ns();
      xylResult_t code = xylSuccess;
      if (rank == 0)
        code = xylBroadcast(data.data(), data.data(), data.size(), xylFloat32, root, comm, nullptr);
      else
        code = xylAllReduce(data.data(), data.data(), data.size(), xylFloat32, xylSum, comm, nullptr);
      // Only who sent may have returned.
      if (rank != root || rank == 1) {
        EXPECT_EQ(code, xylInvalidUsage) << xylGetLastError(comm);
      }
      EXPECT_LT(now_ns() - began, 10'000'000'000);
      for (const float x : data) EXPECT_EQ(x, 1.0f);
      EXPECT_EQ(xylBarrier(comm, nullptr), xylInvalidUsage);
    });
}

}  // namespace
}  // namespace xyl::test
