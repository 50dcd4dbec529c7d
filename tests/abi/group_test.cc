// SPDX-License-Identifier: BSD-3-Clause
//
// Groups: one thread that drives several ranks, calls on several communicators in different orders, errors inside a
// group.
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "abi/fused_call.hpp"
#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

// All ranks of a communicator, driven by this thread.
class local_ranks {
 public:
  explicit local_ranks(int ranks) : comms(static_cast<std::size_t>(ranks)) {
    EXPECT_EQ(xylCommInitAll(comms.data(), ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < ranks; ++r) sums.emplace_back(ranks, r);
  }
  ~local_ranks() {
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  }
  int size() const { return static_cast<int>(comms.size()); }

  std::vector<xylComm_t> comms;
  std::vector<sum_of_ranks> sums;
};

TEST(group, lets_one_thread_drive_all_ranks) {
  for (int ranks : {1, 2, 5})
    in_a_process([&] {
      local_ranks all(ranks);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      for (int r = 0; r < ranks; ++r) ASSERT_EQ(all.sums[r].call(all.comms[r]), xylSuccess);
      // Nothing has run yet.
      for (int r = 0; r < ranks; ++r) all.sums[r].expect_untouched(r);
      ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
      for (int r = 0; r < ranks; ++r) all.sums[r].expect_right();
    });
}

// The structures are the caller's again before the group ends.
void fused_calls_in_a_group(unsigned experts) {
  fused_case f;
  f.pattern = fused_pattern::fp8_per_token;
  f.hidden = 512;
  f.tokens = 3;
  f.experts = experts;
  constexpr int ranks = 3;
  local_ranks all(ranks);
  std::vector<fused_data<bfloat16>> data;
  for (int r = 0; r < ranks; ++r) data.emplace_back(f, r, ranks);
  ASSERT_EQ(xylGroupStart(), xylSuccess);
  for (int r = 0; r < ranks; ++r) {
    fused_call call(data[static_cast<std::size_t>(r)]);
    ASSERT_EQ(call(all.comms[r]), xylSuccess) << xylGetLastError(all.comms[r]);
    call.args = {};
    call.moe = {};
    ASSERT_EQ(all.sums[r].call(all.comms[r]), xylSuccess);
  }
  for (const auto& d : data) EXPECT_TRUE(d.output.untouched_from(0) && d.quantised.untouched_from(0));
  ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(data[static_cast<std::size_t>(r)].check(), "");
    all.sums[r].expect_right();
  }
}

TEST(group, records_fused_calls) {
  in_a_process([] { fused_calls_in_a_group(0); });
  in_a_process([] { fused_calls_in_a_group(2); });
}

TEST(group, is_not_run_after_a_fused_call_that_is_wrong) {
  in_a_process([] {
    fused_case f;
    f.hidden = 64;
    local_ranks all(2);
    std::vector<fused_data<float>> data;
    for (int r = 0; r < 2; ++r) data.emplace_back(f, r, 2);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    EXPECT_EQ(fused_call(data[0])(all.comms[0]), xylSuccess);
    fused_call wrong(data[1]);
    wrong.args.hidden = 60;
    EXPECT_EQ(wrong(all.comms[1]), xylInvalidArgument);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_TRUE(data[0].output.untouched_from(0));
  });
}

TEST(group, runs_many_calls_of_each_rank_in_their_order) {
  in_a_process([] {
    local_ranks all(3);
    std::vector<std::vector<std::int64_t>> data(3, std::vector<std::int64_t>(5000, 1));
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int round = 0; round < 20; ++round)
      for (int r : {2, 0, 1}) {
        // 3, then its square, ... mod 2^64: the order of sum and product matters.
        const xylRedOp_t op = round % 2 == 0 ? xylSum : xylProd;
        ASSERT_EQ(xylAllReduce(data[r].data(), data[r].data(), data[r].size(), xylInt64, op, all.comms[r], nullptr),
                  xylSuccess);
        if (round % 5 == 0) {
          ASSERT_EQ(xylBarrier(all.comms[r], nullptr), xylSuccess);
        }
      }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    std::uint64_t expected = 1;
    for (int round = 0; round < 20; ++round)
      expected = round % 2 == 0 ? expected * 3 : expected * expected * expected;
    for (int r = 0; r < 3; ++r)
      for (std::int64_t x : data[r]) ASSERT_EQ(static_cast<std::uint64_t>(x), expected);
  });
}

// Outside a group this would be a deadlock: each of the two waits in the communicator that the other comes to last.
TEST(group, lets_ranks_call_two_communicators_in_different_orders) {
  expect_good(forked_ranks(2, [](int rank, meeting& m) {
    test_communicator one(2, rank, m), two(2, rank, m);
    ASSERT_EQ(one.code(), xylSuccess);
    ASSERT_EQ(two.code(), xylSuccess);
    for (int round = 0; round < 50; ++round) {
      sum_of_ranks first(2, rank), second(2, rank, 30'000);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      if (rank == 0) {
        ASSERT_EQ(first.call(one), xylSuccess);
        ASSERT_EQ(second.call(two), xylSuccess);
      } else {
        ASSERT_EQ(second.call(two), xylSuccess);
        ASSERT_EQ(first.call(one), xylSuccess);
      }
      ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
      first.expect_right();
      second.expect_right();
    }
  }));
}

TEST(group, may_be_nested_and_runs_at_the_outermost_end) {
  in_a_process([] {
    local_ranks all(2);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(all.sums[0].call(all.comms[0]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    all.sums[0].expect_untouched(0);
    ASSERT_EQ(all.sums[1].call(all.comms[1]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const sum_of_ranks& sum : all.sums) sum.expect_right();
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "no group")) << xylGetLastError(nullptr);
  });
}

TEST(group, without_calls_is_a_success) {
  ASSERT_EQ(xylGroupStart(), xylSuccess);
  EXPECT_EQ(xylGroupEnd(), xylSuccess);
}

TEST(group, of_another_thread_is_another_group) {
  in_a_process([] {
    local_ranks all(1);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    std::thread([&] {
      EXPECT_EQ(all.sums[0].call(all.comms[0]), xylSuccess);
      all.sums[0].expect_right();
      EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    }).join();
    EXPECT_EQ(xylGroupEnd(), xylSuccess);
  });
}

TEST(group, with_a_wrong_call_runs_nothing_and_is_usable_again) {
  in_a_process([] {
    local_ranks all(2);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(all.sums[0].call(all.comms[0]), xylSuccess);
    EXPECT_EQ(all.sums[1].call(nullptr), xylInvalidArgument);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "comm is NULL")) << xylGetLastError(nullptr);
    for (int r = 0; r < 2; ++r) all.sums[r].expect_untouched(r);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(all.sums[r].call(all.comms[r]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const sum_of_ranks& sum : all.sums) sum.expect_right();
  });
}

TEST(group, whose_communicator_is_destroyed_inside_is_an_error_at_its_end) {
  in_a_process([] {
    xylComm_t comm = nullptr;
    ASSERT_EQ(xylCommInitAll(&comm, 1, nullptr), xylSuccess);
    sum_of_ranks sum(1, 0);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(sum.call(comm), xylSuccess);
    ASSERT_EQ(xylCommDestroy(comm), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "not a communicator")) << xylGetLastError(nullptr);
  });
}

// It waited for itself, for ever.
TEST(group, whose_communicator_is_split_and_destroyed_inside_is_an_error_at_its_end) {
  for (int color : {0, XYL_SPLIT_NOCOLOR})
    in_a_process([=] {
      xylComm_t comm = nullptr, part = nullptr;
      ASSERT_EQ(xylCommInitAll(&comm, 1, nullptr), xylSuccess);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      ASSERT_EQ(xylCommSplit(comm, color, 0, &part, nullptr), xylSuccess);
      ASSERT_EQ(xylCommDestroy(comm), xylSuccess);
      EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
      EXPECT_TRUE(says(xylGetLastError(nullptr), "not a communicator")) << xylGetLastError(nullptr);
      EXPECT_EQ(part, nullptr);
    });
}

// The second operation gets the number of the first.
TEST(group, whose_operation_is_destroyed_inside_uses_it_all_the_same) {
  in_a_process([] {
    xylComm_t comm = nullptr;
    ASSERT_EQ(xylCommInitAll(&comm, 1, nullptr), xylSuccess);
    float two = 2, five = 5, in = 3, first_out = 0, second_out = 0;
    xylRedOp_t first, second;
    ASSERT_EQ(xylRedOpCreatePreMulSum(&first, &two, xylFloat32, xylScalarHostImmediate, comm), xylSuccess);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(xylAllReduce(&in, &first_out, 1, xylFloat32, first, comm, nullptr), xylSuccess);
    ASSERT_EQ(xylRedOpDestroy(first, comm), xylSuccess);
    ASSERT_EQ(xylRedOpCreatePreMulSum(&second, &five, xylFloat32, xylScalarHostImmediate, comm), xylSuccess);
    EXPECT_EQ(second, first);
    ASSERT_EQ(xylReduceScatter(&in, &second_out, 1, xylFloat32, second, comm, nullptr), xylSuccess);
    ASSERT_EQ(xylRedOpDestroy(second, comm), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    EXPECT_EQ(first_out, 6);
    EXPECT_EQ(second_out, 15);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
  });
}

TEST(group, that_uses_a_destroyed_operation_is_refused_at_the_call) {
  in_a_process([] {
    xylComm_t comm = nullptr;
    ASSERT_EQ(xylCommInitAll(&comm, 1, nullptr), xylSuccess);
    float two = 2, in = 3, out = 0;
    xylRedOp_t op;
    ASSERT_EQ(xylRedOpCreatePreMulSum(&op, &two, xylFloat32, xylScalarHostImmediate, comm), xylSuccess);
    ASSERT_EQ(xylRedOpDestroy(op, comm), xylSuccess);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    EXPECT_EQ(xylAllReduce(&in, &out, 1, xylFloat32, op, comm, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylGroupEnd(), xylInvalidArgument);
    EXPECT_EQ(out, 0);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
  });
}

TEST(group, reports_mismatched_calls_of_its_ranks) {
  in_a_process([] {
    local_ranks all(2);
    std::vector<float> in(10, 1), out(10, 7);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(xylAllReduce(in.data(), out.data(), 10, xylFloat32, xylSum, all.comms[0], nullptr), xylSuccess);
    ASSERT_EQ(xylAllReduce(in.data(), out.data(), 10, xylFloat32, xylMax, all.comms[1], nullptr), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "differ")) << xylGetLastError(nullptr);
    EXPECT_TRUE(says(xylGetLastError(all.comms[1]), "differ")) << xylGetLastError(all.comms[1]);
    for (float x : out) ASSERT_EQ(x, 7);
  });
}

TEST(group, of_initialisations_lets_one_thread_make_all_ranks) {
  in_a_process([] {
    constexpr int ranks = 4;
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess) << xylGetLastError(nullptr);
    xylComm_t comms[ranks];
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks; ++r) ASSERT_EQ(xylCommInitRank(&comms[r], ranks, id, r), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    std::vector<sum_of_ranks> sums;
    for (int r = 0; r < ranks; ++r) sums.emplace_back(ranks, r);
    for (int r = 0; r < ranks; ++r) ASSERT_EQ(sums[r].call(comms[r]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const sum_of_ranks& sum : sums) sum.expect_right();
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

// Two processes with two ranks each, one thread per process, and a split in the same way.
TEST(group, of_initialisations_and_splits_spans_processes) {
  expect_good(forked_ranks(2, [](int process, meeting& m) {
    const xylUniqueId id = shared_id(process, 2, m);
    xylComm_t comms[2], parts[2];
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int t = 0; t < 2; ++t) ASSERT_EQ(xylCommInitRank(&comms[t], 4, id, 2 * process + t), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int t = 0; t < 2; ++t) ASSERT_EQ(xylCommSplit(comms[t], t, process, &parts[t], nullptr), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    sum_of_ranks sums[] = {{2, process}, {2, process}, {4, 2 * process}, {4, 2 * process + 1}};
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int t = 0; t < 2; ++t) {
      ASSERT_EQ(sums[t].call(parts[t]), xylSuccess);
      ASSERT_EQ(sums[2 + t].call(comms[t]), xylSuccess);
    }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const sum_of_ranks& sum : sums) sum.expect_right();
    for (int t = 0; t < 2; ++t) {
      EXPECT_EQ(xylCommDestroy(parts[t]), xylSuccess);
      EXPECT_EQ(xylCommDestroy(comms[t]), xylSuccess);
    }
  }));
}

// All of them at once would come to the parent in another order on each rank.
TEST(group, keeps_the_order_of_splits_of_one_communicator) {
  expect_good(forked_ranks(2, [](int rank, meeting& m) {
    test_communicator comm(2, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    for (int round = 0; round < 5; ++round) {
      std::vector<xylComm_t> parts(6);
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      for (int i = 0; i < 6; ++i)
        ASSERT_EQ(xylCommSplit(comm, i % 2 == 0 ? 0 : rank, i % 3 == 0 ? -rank : rank, &parts[i], nullptr),
                  xylSuccess);
      ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
      for (int i = 0; i < 6; ++i) {
        if (i % 2 == 0)
          expect_sum(parts[i], 2, i % 3 == 0 ? 1 - rank : rank);
        else
          expect_sum(parts[i], 1, 0);
        EXPECT_EQ(xylCommDestroy(parts[i]), xylSuccess);
      }
    }
  }));
}

TEST(group, whose_initialisation_fails_leaves_no_handles_of_it) {
  in_a_process([] {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    xylComm_t comms[2] = {reinterpret_cast<xylComm_t>(1), reinterpret_cast<xylComm_t>(1)};
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(xylCommInitRank(&comms[0], 2, id, 0), xylSuccess);
    ASSERT_EQ(xylCommInitRank(&comms[1], 2, id, 0), xylSuccess);  // the same rank again
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "rank 0 came twice")) << xylGetLastError(nullptr);
    for (xylComm_t c : comms) EXPECT_EQ(c, nullptr);
  });
}

TEST(fork_after_init, refuses_the_child_but_not_its_own_groups) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork with threads";
#endif
  in_a_process([] {
    local_ranks all(2);
    // So that there are helper threads, which the child does not have.
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(all.sums[r].call(all.comms[r]), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    in_a_process([&] {
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      EXPECT_EQ(all.sums[0].call(all.comms[0]), xylInvalidUsage);
      EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
      xylComm_t part = nullptr;
      EXPECT_EQ(xylCommSplit(all.comms[0], 0, 0, &part, nullptr), xylInvalidUsage);
      EXPECT_EQ(xylCommFinalize(all.comms[0]), xylInvalidUsage);
      xylUniqueId id;
      ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
      xylComm_t own = nullptr;
      EXPECT_EQ(xylCommInitRank(&own, 2, id, 0), xylInvalidUsage);
      EXPECT_TRUE(says(xylGetLastError(nullptr), "was forked")) << xylGetLastError(nullptr);
    });
  });
}

}  // namespace
}  // namespace xyl::test
