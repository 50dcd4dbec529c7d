// SPDX-License-Identifier: BSD-3-Clause
//
// Groups of all ranks of a process on made-up devices, whose memory is host memory: what is done for all ranks at
// once is right, with the calls before and behind it, and what does not fit together is left to each rank. The
// device_side of this program is that of joint_device.hpp. Not for builds with CUDA, which bring a device_side.
#include <gtest/gtest.h>

#include <memory>

#include "abi/id_ranks.hpp"
#include "comm/joint_device.hpp"
#include "exec/device_memory.hpp"
#include "support/call_model.hpp"

namespace xyl {

int device_side::current_device() { return 0; }
int device_side::count() { return test::devices; }
result device_side::create(int device, const layout& map, std::byte*, std::size_t, std::int64_t, bool,
                           std::unique_ptr<device_side>& out) {
  out = std::make_unique<test::made_up_device>(map, device);
  return {};
}
bool has_current_device() { return true; }
result allocate_device_memory(std::size_t, void*&) { return error(xylSystemError, "there is no memory"); }
result free_device_memory(void*) { return {}; }
result kernel_check::create(device_side&, int, int, std::unique_ptr<kernel_check>& out) {
  out = std::make_unique<test::made_up_check>();
  return {};
}

namespace test {
namespace {

class ranks_of_a_process {
 public:
  explicit ranks_of_a_process(int ranks, std::size_t bytes = 1 << 16)
      : comms(static_cast<std::size_t>(ranks)), model(ranks, bytes, 3), arenas(model.arenas) {
    EXPECT_EQ(xylCommInitAll(comms.data(), ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
    for (auto& a : arenas) device_memory[reinterpret_cast<std::byte*>(a.data())] = a.size();
    seen = {};
  }
  ~ranks_of_a_process() {
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
    device_memory.clear();
  }
  int ranks() const { return static_cast<int>(comms.size()); }
  void* arena(int rank) { return arenas[static_cast<std::size_t>(rank)].data(); }
  xylComm_t comm(int rank) { return comms[static_cast<std::size_t>(rank)]; }

  // In one group, all ranks on their own streams or all on one.
  xylResult_t group(const std::vector<modelled_call>& calls, bool own_streams = false) {
    EXPECT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < ranks(); ++r)
      for (const modelled_call& c : calls)
        EXPECT_EQ(issue(c, arena(r), r, ranks(), comm(r), stream(own_streams ? r : 0)), xylSuccess)
            << xylGetLastError(comm(r));
    return xylGroupEnd();
  }
  static xylStream_t stream(int number) {
    return reinterpret_cast<xylStream_t>(std::uintptr_t{64} * (number + 1u));
  }

  std::vector<xylComm_t> comms;
  call_model model;
  std::vector<std::vector<std::uint8_t>> arenas;
};

modelled_call sum_of(std::size_t count, std::size_t in = 0, std::size_t out = 4096) {
  modelled_call c;
  c.count = count;
  c.in = in;
  c.out = out;
  return c;
}

TEST(joint, random_groups_do_what_the_model_does) {
  for (const int ranks : {2, 3, 5})
    in_a_process([&] {
      ranks_of_a_process all(ranks);
      std::mt19937_64 random(static_cast<unsigned>(ranks));
      for (int round = 0; round < 60; ++round) {
        std::vector<modelled_call> calls;
        for (std::size_t part = random() % 4; part < 4; ++part)
          calls.push_back(random_call(random, ranks, part << 14, 1 << 14, 4000));
        ASSERT_EQ(all.group(calls, round % 2), xylSuccess) << xylGetLastError(nullptr);
        for (const modelled_call& c : calls) all.model.run(c);
        for (const modelled_call& c : calls) ASSERT_TRUE(all.arenas == all.model.arenas) << "of " << c.text();
      }
      EXPECT_EQ(seen.alone, 0);
      EXPECT_GE(seen.jointly, 60);
    });
}

// Everybody's stream comes before the one that carries all, and goes on after it.
TEST(joint, streams_meet_before_and_after) {
  in_a_process([] {
    ranks_of_a_process all(3);
    ASSERT_EQ(all.group({sum_of(10)}), xylSuccess);
    EXPECT_TRUE(seen.joins.empty());
    ASSERT_EQ(all.group({sum_of(10)}, true), xylSuccess);
    const auto s = ranks_of_a_process::stream;
    const decltype(seen.joins) want = {{s(0), s(1)}, {s(0), s(2)}, {s(1), s(0)}, {s(2), s(0)}};
    EXPECT_EQ(seen.joins, want);
    // A barrier is nothing else.
    seen = {};
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r) ASSERT_EQ(xylBarrier(all.comm(r), s(r)), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    EXPECT_EQ(seen.joins, want);
    EXPECT_EQ(seen.jointly + seen.alone, 0);
  });
}

TEST(joint, ranks_of_several_devices_work_alone) {
  in_a_process([] {
    devices = 2;
    environment unproven("XYLEM_PROBE", "never");
    ranks_of_a_process all(4);
    ASSERT_EQ(all.group({sum_of(10)}), xylSuccess);
    EXPECT_EQ(seen.jointly, 0);
    EXPECT_EQ(seen.alone, 4);
  });
}

// Whoever is not in the group is waited for, on the device.
TEST(joint, ranks_that_are_not_all_in_the_group_work_alone) {
  in_a_process([] {
    ranks_of_a_process all(3);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(issue(sum_of(10), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    EXPECT_EQ(seen.jointly, 0);
    EXPECT_EQ(seen.alone, 2);
  });
}

TEST(joint, a_call_that_others_make_later_leaves_all_to_each_rank) {
  in_a_process([] {
    ranks_of_a_process all(3);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r)
      for (int call = 0; call < (r == 1 ? 2 : 1); ++call)
        ASSERT_EQ(issue(sum_of(10), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    EXPECT_EQ(seen.jointly, 0);
    EXPECT_EQ(seen.alone, 4);
  });
}

TEST(joint, a_send_without_its_receive_is_left_to_its_rank) {
  in_a_process([] {
    ranks_of_a_process all(2);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    ASSERT_EQ(xylSend(all.arena(0), 8, xylInt32, 1, all.comm(0), nullptr), xylSuccess);
    ASSERT_EQ(xylSend(all.arena(1), 8, xylInt32, 0, all.comm(1), nullptr), xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess);
    EXPECT_EQ(seen.jointly, 0);
    EXPECT_EQ(seen.alone, 2);
  });
}

TEST(joint, what_differs_is_refused_and_nothing_is_run) {
  in_a_process([] {
    ranks_of_a_process all(3);
    const auto refused = [&](const std::vector<modelled_call>& of_rank, const char* first, const char* second) {
      ASSERT_EQ(xylGroupStart(), xylSuccess);
      for (int r = 0; r < 3; ++r) {
        ASSERT_EQ(issue(sum_of(3), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
        ASSERT_EQ(issue(of_rank[static_cast<std::size_t>(r)], all.arena(r), r, 3, all.comm(r), nullptr),
                  xylSuccess);
      }
      EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
      for (int r = 0; r < 3; ++r) {
        const std::string text = xylGetLastError(all.comm(r));
        EXPECT_NE(text.find(first), std::string::npos) << text;
        EXPECT_NE(text.find(second), std::string::npos) << text;
      }
      EXPECT_TRUE(all.arenas == all.model.arenas);
    };
    refused({sum_of(5), sum_of(5), sum_of(6)}, "allreduce of 5 int32", "allreduce of 6 int32");
    modelled_call other = sum_of(5);
    other.op = xylMax;
    refused({sum_of(5), other, sum_of(5)}, "sum", "max");
    modelled_call send = sum_of(5), longer = sum_of(6);
    send.what = longer.what = collective::send;
    refused({send, longer, send}, "send of 5 int32 to rank 1", "recv of 6 int32 from rank 0");
    EXPECT_EQ(seen.jointly + seen.alone, 0);
    // Nothing is out of service.
    ASSERT_EQ(all.group({sum_of(5)}), xylSuccess);
  });
}

// Else host memory would hold results of a group that failed.
TEST(joint, after_calls_that_differ_on_the_device_host_calls_of_the_group_are_not_run) {
  in_a_process([] {
    ranks_of_a_process all(3), others(2);
    std::vector<sum_of_ranks> sums, sums_of_others;
    for (int r = 0; r < 3; ++r) sums.emplace_back(3, r);
    for (int r = 0; r < 2; ++r) sums_of_others.emplace_back(2, r);
    int message = 0;
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r) {
      const auto i = static_cast<std::size_t>(r);
      ASSERT_EQ(sums[i].call(all.comm(r)), xylSuccess);
      ASSERT_EQ(issue(sum_of(r == 1 ? 6 : 5), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
    }
    int sent = 7;
    ASSERT_EQ(xylSend(&sent, 1, xylInt32, 2, all.comm(0), nullptr), xylSuccess);
    ASSERT_EQ(xylRecv(&message, 1, xylInt32, 0, all.comm(2), nullptr), xylSuccess);
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(sums_of_others[static_cast<std::size_t>(r)].call(others.comm(r)), xylSuccess);
    EXPECT_EQ(xylGroupEnd(), xylInvalidUsage);
    for (int r = 0; r < 3; ++r) {
      sums[static_cast<std::size_t>(r)].expect_untouched(r);
      EXPECT_NE(std::string(xylGetLastError(all.comm(r))).find("the ranks' calls differ"), std::string::npos);
    }
    EXPECT_EQ(message, 0);
    EXPECT_EQ(seen.jointly + seen.alone, 0);
    for (const sum_of_ranks& s : sums_of_others) s.expect_right();
    // The ranks are still in step, on either memory.
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r) {
      ASSERT_EQ(sums[static_cast<std::size_t>(r)].call(all.comm(r)), xylSuccess);
      ASSERT_EQ(issue(sum_of(5), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
    }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (const sum_of_ranks& s : sums) s.expect_right();
    all.model.run(sum_of(5));
    EXPECT_TRUE(all.arenas == all.model.arenas);
  });
}

TEST(joint, host_memory_in_the_same_group_is_dealt_with_by_each_rank) {
  in_a_process([] {
    ranks_of_a_process all(3);
    std::vector<sum_of_ranks> sums;
    for (int r = 0; r < 3; ++r) sums.emplace_back(3, r);
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r) {
      ASSERT_EQ(issue(sum_of(20), all.arena(r), r, 3, all.comm(r), nullptr), xylSuccess);
      ASSERT_EQ(sums[static_cast<std::size_t>(r)].call(all.comm(r)), xylSuccess);
    }
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    all.model.run(sum_of(20));
    EXPECT_TRUE(all.arenas == all.model.arenas);
    for (const sum_of_ranks& s : sums) s.expect_right();
    EXPECT_EQ(seen.alone, 0);
  });
}

// In chunks, since scaled inputs have only so much room.
TEST(joint, inputs_are_scaled_by_their_ranks_factors) {
  in_a_process([] {
    constexpr std::size_t count = 3'000'000;
    ranks_of_a_process all(2, 2 * count * sizeof(float));
    std::vector<xylRedOp_t> ops(2);
    for (int r = 0; r < 2; ++r) {
      float factor = static_cast<float>(r) + 0.5f;
      ASSERT_EQ(xylRedOpCreatePreMulSum(&ops[static_cast<std::size_t>(r)], &factor, xylFloat32,
                                        xylScalarHostImmediate, all.comm(r)),
                xylSuccess);
      auto* const in = static_cast<float*>(all.arena(r));
      for (std::size_t i = 0; i < count; ++i) in[i] = static_cast<float>(i % 100);
    }
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(xylReduceScatter(all.arena(r), static_cast<float*>(all.arena(r)) + count, count / 2, xylFloat32,
                                 ops[static_cast<std::size_t>(r)], all.comm(r), nullptr),
                xylSuccess);
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < 2; ++r)
      for (std::size_t i = 0; i < count / 2; ++i)
        ASSERT_EQ(static_cast<float*>(all.arena(r))[count + i],
                  2 * static_cast<float>((count / 2 * static_cast<unsigned>(r) + i) % 100))
            << "rank " << r << " element " << i;
    EXPECT_GT(seen.jointly, 0);
    EXPECT_EQ(seen.alone, 0);
  });
}

// The sums with the residual, of all ranks at once, and each rank's norms.
TEST(joint, fused_calls_are_a_sum_and_norms) {
  in_a_process([] {
    constexpr std::size_t hidden = 64;
    ranks_of_a_process all(3);
    std::vector<xylAllReduceRMSNormArgs_t> args(3);
    for (int r = 0; r < 3; ++r) {
      auto* const memory = static_cast<float*>(all.arena(r));
      for (std::size_t i = 0; i < 4 * hidden; ++i) memory[i] = static_cast<float>(r + 1);
      xylAllReduceRMSNormArgs_t& a = args[static_cast<std::size_t>(r)];
      a = {};
      a.size = sizeof a;
      a.pattern = xylFusedResidualRMSNorm;
      a.type = a.weight_type = xylFloat32;
      a.eps = 1e-6f;
      a.tokens = 1;
      a.hidden = hidden;
      a.input = memory;
      a.residual = memory + hidden;
      a.weight = memory + 2 * hidden;
      a.output = memory + 3 * hidden;
      a.residual_out = memory + 4 * hidden;
    }
    ASSERT_EQ(xylGroupStart(), xylSuccess);
    for (int r = 0; r < 3; ++r)
      ASSERT_EQ(xylAllReduceRMSNorm(&args[static_cast<std::size_t>(r)], all.comm(r), nullptr), xylSuccess)
          << xylGetLastError(all.comm(r));
    ASSERT_EQ(xylGroupEnd(), xylSuccess) << xylGetLastError(nullptr);
    // Residuals are the same on all ranks; here they are not, and rank 0's counts.
    for (int r = 0; r < 3; ++r)
      for (std::size_t i = 0; i < hidden; ++i)
        ASSERT_EQ(static_cast<float*>(all.arena(r))[4 * hidden + i], 7.0f) << "rank " << r << " element " << i;
    EXPECT_EQ(seen.jointly, 1);
    EXPECT_EQ(seen.norms, 3);
    EXPECT_EQ(seen.alone, 0);
  });
}

}  // namespace
}  // namespace test
}  // namespace xyl
