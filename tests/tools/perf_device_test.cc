// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory of xylem-perf on a real device: contents, graphs and clock. Skipped where there is none.
#include <gtest/gtest.h>

#include <vector>

#include "tools/perf_memory.hpp"

namespace xyl {
namespace {

class perf_device : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
    const result r = make_device_memory(0, memory_);
    ASSERT_TRUE(r.ok()) << r.text();
    ASSERT_TRUE(memory_->allocate(bytes, buffer_).ok());
  }
  std::vector<std::byte> contents() {
    std::vector<std::byte> out(bytes);
    EXPECT_TRUE(memory_->read(out.data(), buffer_, bytes).ok());
    return out;
  }

  static constexpr std::size_t bytes = 100'003;
  std::unique_ptr<perf_memory> memory_;
  std::byte* buffer_ = nullptr;
};

TEST_F(perf_device, holds_what_is_written) {
  EXPECT_NE(memory_->stream(), nullptr);
  EXPECT_NE(device_text(0), "");
  ASSERT_TRUE(memory_->fill(buffer_, 0xff, bytes).ok());
  EXPECT_EQ(contents(), std::vector<std::byte>(bytes, std::byte{0xff}));
  const std::vector<std::byte> some(17, std::byte{3});
  ASSERT_TRUE(memory_->write(buffer_ + 5, some.data(), some.size()).ok());
  const std::vector<std::byte> now = contents();
  EXPECT_EQ(std::vector<std::byte>(now.begin() + 5, now.begin() + 22), some);
  EXPECT_EQ(now[4], std::byte{0xff});
  EXPECT_EQ(now[22], std::byte{0xff});
}

TEST_F(perf_device, an_impossible_allocation_says_how_much) {
  std::byte* none = nullptr;
  const result r = memory_->allocate(std::size_t{1} << 60, none);
  EXPECT_EQ(r.code(), xylUnhandledCudaError);
  EXPECT_NE(r.text().find("1152921504606846976 bytes"), std::string::npos) << r.text();
}

TEST_F(perf_device, a_recorded_graph_can_be_launched_again) {
  int recorded = 0;
  work launch;
  ASSERT_TRUE(memory_->record([&]() -> result { return ++recorded, result(); }, launch).ok());
  EXPECT_EQ(recorded, 1);
  double seconds = -1;
  ASSERT_TRUE(memory_->start_clock().ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(launch().ok());
  ASSERT_TRUE(memory_->stop_clock(seconds).ok());
  EXPECT_GE(seconds, 0);
  EXPECT_EQ(recorded, 1);
}

TEST_F(perf_device, a_failed_recording_leaves_the_stream_usable) {
  work launch;
  EXPECT_EQ(memory_->record([] { return error(xylInternalError, "planted"); }, launch).text(), "planted");
  ASSERT_TRUE(memory_->fill(buffer_, 1, bytes).ok());
  EXPECT_EQ(contents(), std::vector<std::byte>(bytes, std::byte{1}));
}

}  // namespace
}  // namespace xyl
