// SPDX-License-Identifier: BSD-3-Clause
//
// Fused calls whose inputs are registered, in host memory, with ranks as processes: the bits of other inputs, in
// every form; and inputs at different places.
#include <cstdlib>
#include <cstring>

#include "abi/fused_call.hpp"
#include "abi/window.hpp"

namespace xyl::test {
namespace {

constexpr std::size_t room = 4 << 20;

// As soon as the call is over, the input is written over: a peer that is late must not see that.
template <class T>
void call_and_check(const fused_case& f, int rank, int ranks, xylComm_t comm, shared_buffer_of& window) {
  SCOPED_TRACE("pattern " + std::to_string(static_cast<int>(f.pattern)) + ", " + std::to_string(f.tokens) + " x " +
               std::to_string(f.hidden) + (f.in_place ? ", in place" : "") +
               (f.residual_sharded ? ", sharded" : ""));
  fused_data<T> plain(f, rank, ranks), d(f, rank, ranks);
  ASSERT_EQ(fused_call(plain)(comm), xylSuccess) << xylGetLastError(comm);
  ASSERT_LE(d.input.size(), room);
  std::byte* const input = window.at<std::byte>(0);
  std::memcpy(input, d.input.raw(), d.input.size());
  const fused_call call(d, [&](std::byte* p) { return p == d.input.raw() ? input : p; });
  ASSERT_EQ(call(comm), xylSuccess) << xylGetLastError(comm);
  if (f.in_place) std::memcpy(d.input.raw(), input, d.input.size());
  std::memset(input, 0x22, d.input.size());
  EXPECT_TRUE(d.same_outputs(plain));
  EXPECT_EQ(d.check(), "");
  EXPECT_EQ(d.check_untouched(), "");
}

class fused_windows : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { ::setenv("XYLEM_PULL", std::get<1>(GetParam()), 1); }
  void TearDown() override { ::unsetenv("XYLEM_PULL"); }
  int ranks() const { return std::get<0>(GetParam()); }
};

TEST_P(fused_windows, every_pattern_has_the_bits_of_other_inputs) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    shared_buffer_of window(comm, room);
    for (int pattern = xylFusedAllReduce; pattern <= xylFusedNvfp4Swizzled128x4; ++pattern) {
      fused_case f;
      f.pattern = static_cast<fused_pattern>(pattern);
      f.hidden = 256;
      f.seed = static_cast<unsigned>(pattern) + 5;
      for (const std::uint64_t tokens : {1u, 5u, 203u}) {
        f.tokens = tokens;
        f.residual_sharded = false;
        for (const bool in_place : {false, true}) {
          f.in_place = in_place;
          call_and_check<bfloat16>(f, rank, ranks(), comm, window);
          if (pattern < xylFusedNvfp4Linear) call_and_check<float>(f, rank, ranks(), comm, window);
        }
        f.in_place = false;
        f.residual_sharded = pattern != xylFusedAllReduce;
        call_and_check<float16>(f, rank, ranks(), comm, window);
      }
    }
  });
}

// A mixture of experts makes its input first, and no tokens have no input.
TEST_P(fused_windows, calls_that_cannot_pull) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    shared_buffer_of window(comm, room);
    fused_case f;
    f.hidden = 1024;
    f.tokens = 40;
    f.experts = 2;
    call_and_check<bfloat16>(f, rank, ranks(), comm, window);
    f.experts = 0;
    f.tokens = 0;
    call_and_check<bfloat16>(f, rank, ranks(), comm, window);
  });
}

TEST_P(fused_windows, inputs_at_different_places_are_refused) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    void *memory = nullptr, *handle = nullptr;
    ASSERT_EQ(xylMemAlloc(&memory, room, xylMemHost), xylSuccess);
    ASSERT_EQ(xylCommRegister(comm, memory, room, &handle), xylSuccess) << xylGetLastError(comm);
    fused_case f;
    f.hidden = 1024;
    f.tokens = 64;
    fused_data<bfloat16> d(f, rank, ranks());
    std::byte* const input = static_cast<std::byte*>(memory) + (rank == 0 ? 16 : 0);
    const fused_call call(d, [&](std::byte* p) { return p == d.input.raw() ? input : p; });
    EXPECT_EQ(call(comm), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(comm), "input in registered buffer 0")) << xylGetLastError(comm);
    EXPECT_TRUE(d.output.untouched_from(0) && d.residual_out.untouched_from(0));
    comm.destroy();
    EXPECT_EQ(xylMemFree(memory), xylSuccess) << xylGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(host, fused_windows,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values("auto", "oneshot", "twoshot", "never")),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<0>(info.param)) + "_ranks";
                         });

}  // namespace
}  // namespace xyl::test
