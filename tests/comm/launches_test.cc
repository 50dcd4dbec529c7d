// SPDX-License-Identifier: BSD-3-Clause
//
// What a communicator has its device do for calls of any size stays in the regions of the workspace: on made-up
// devices that wait for nobody and refuse what does not (see room.hpp).
#include <gtest/gtest.h>

#include <memory>

#include "abi/id_ranks.hpp"
#include "comm/joint_device.hpp"

namespace xyl::test {
namespace {

// Nobody looks at this memory.
std::byte* const somewhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 44);

std::byte* const elsewhere = somewhere + (std::uintptr_t{1} << 43);
constexpr std::size_t reach = std::size_t{1} << 44;

struct scaled_sum {
  xylRedOp_t op{};
  scaled_sum(xylComm_t comm, xylDataType_t type) {
    std::uint64_t factor = 0;
    EXPECT_EQ(xylRedOpCreatePreMulSum(&op, &factor, type, xylScalarHostImmediate, comm), xylSuccess);
  }
};

// One call of a rank; false: there is no more of that number.
bool make_call(int number, std::size_t count, xylDataType_t type, int peer, xylComm_t comm, xylResult_t& out) {
  switch (number) {
    case 0:
      out = xylAllReduce(somewhere, elsewhere, count, type, xylSum, comm, nullptr);
      return true;
    case 1:
      out = xylReduce(somewhere, elsewhere, count, type, xylMax, 1, comm, nullptr);
      return true;
    case 2:
      out = xylReduceScatter(somewhere, elsewhere, count, type, xylSum, comm, nullptr);
      return true;
    case 3:
      out = xylBroadcast(somewhere, elsewhere, count, type, 0, comm, nullptr);
      return true;
    case 4:
      out = xylAllGather(somewhere, elsewhere, count, type, comm, nullptr);
      return true;
    case 5:
      out = xylAlltoAll(somewhere, elsewhere, count, type, comm, nullptr);
      return true;
    case 6:
      out = xylGather(somewhere, elsewhere, count, type, 1, comm, nullptr);
      return true;
    case 7:
      out = xylScatter(somewhere, elsewhere, count, type, 1, comm, nullptr);
      return true;
    case 8:
      out = xylSend(somewhere, count, type, peer, comm, nullptr);
      return true;
    case 9:
      out = xylRecv(elsewhere, count, type, peer, comm, nullptr);
      return true;
    case 10:
      out = xylAllReduce(somewhere, elsewhere, count, type, scaled_sum(comm, type).op, comm, nullptr);
      return true;
    case 11:
      out = xylReduceScatter(somewhere, elsewhere, count, type, scaled_sum(comm, type).op, comm, nullptr);
      return true;
    default:
      return false;
  }
}

void expect_launches_that_fit(int ranks, const char* variable, const char* value, int on_devices = 1) {
  in_a_process([&] {
    devices = on_devices;
    environment how(variable, value), unproven("XYLEM_PROBE", "never");
    computes = false;
    device_memory[somewhere] = reach;
    std::vector<xylComm_t> comms(static_cast<std::size_t>(ranks));
    ASSERT_EQ(xylCommInitAll(comms.data(), ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
    seen = {};
    int calls = 0;
    for (int r : {0, ranks - 1})
      for (const std::size_t count : {1ull, 4001ull, 300'000ull, 3'000'001ull, 90'000'017ull})
        for (const xylDataType_t type : {xylUint8, xylBfloat16, xylFloat64}) {
          xylComm_t comm = comms[static_cast<std::size_t>(r)];
          xylResult_t said = xylSuccess;
          for (int n = 0; make_call(n, count, type, r == 0 ? 1 : 0, comm, said); ++n, ++calls)
            ASSERT_EQ(said, xylSuccess)
                << "call " << n << " of " << count << " elements, rank " << r << " of " << ranks << ", " << variable
                << "=" << value << ": " << xylGetLastError(comm);
        }
    EXPECT_GE(seen.alone, calls);
    for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
  });
}

TEST(launches, of_every_algorithm_stay_in_their_regions) {
  for (const char* how : {"auto", "packet", "oneshot", "twoshot", "ring", "twoshotpacket", "ll128", "ll16"})
    for (const int ranks : {2, 3, 8}) expect_launches_that_fit(ranks, "XYLEM_ALGO", how);
}

// Where long messages are swapped.
TEST(launches, of_ranks_on_several_devices_stay_in_their_regions) {
  for (const int ranks : {2, 4}) expect_launches_that_fit(ranks, "XYLEM_ALGO", "auto", ranks);
}

TEST(launches, of_a_pull_from_workspaces_stay_in_their_regions) {
  for (const int ranks : {2, 4}) expect_launches_that_fit(ranks, "XYLEM_PULL", "staged");
}

TEST(launches, of_lines_of_128_bytes_stay_in_their_regions) {
  for (const int ranks : {2, 4}) expect_launches_that_fit(ranks, "XYLEM_SYNC", "ll128");
}

TEST(launches, of_lines_of_16_bytes_stay_in_their_regions) { expect_launches_that_fit(2, "XYLEM_SYNC", "ll16"); }

TEST(launches, of_fused_calls_stay_in_their_regions) {
  for (const int ranks : {2, 3, 8})
    in_a_process([&] {
      environment unproven("XYLEM_PROBE", "never");
      device_memory[somewhere] = reach;
      std::vector<xylComm_t> comms(static_cast<std::size_t>(ranks));
      ASSERT_EQ(xylCommInitAll(comms.data(), ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
      seen = {};
      for (const xylFusedPattern_t pattern : {xylFusedResidualRMSNorm, xylFusedFp8PerToken})
        for (const bool has_residual : {false, true})
          for (const std::uint64_t tokens : {1, 8, 65, 1000, 20'000})
            for (const std::uint64_t hidden : {64, 2880, 7168}) {
              xylAllReduceRMSNormArgs_t a{};
              a.size = sizeof a;
              a.pattern = pattern;
              a.type = a.weight_type = xylBfloat16;
              a.eps = 1e-6f;
              a.tokens = tokens;
              a.hidden = hidden;
              constexpr std::size_t apart = std::size_t{1} << 36;
              a.input = somewhere;
              a.residual = somewhere + apart;
              a.weight = somewhere + 2 * apart;
              a.output = somewhere + 3 * apart;
              a.residual_out = has_residual ? somewhere + 4 * apart : nullptr;
              if (pattern == xylFusedFp8PerToken) {
                a.quantised = somewhere + 5 * apart;
                a.scales = somewhere + 6 * apart;
              }
              xylComm_t comm = comms[1];
              ASSERT_EQ(xylAllReduceRMSNorm(&a, comm, nullptr), xylSuccess)
                  << tokens << " rows of " << hidden << ", pattern " << pattern << ": " << xylGetLastError(comm);
            }
      // Many rows go in two steps, of which the first is an allreduce.
      EXPECT_GT(seen.fused, 20);
      EXPECT_GE(seen.fused + seen.alone, 60);
      for (xylComm_t c : comms) EXPECT_EQ(xylCommDestroy(c), xylSuccess);
    });
}

}  // namespace
}  // namespace xyl::test
