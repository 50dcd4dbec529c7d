// SPDX-License-Identifier: BSD-3-Clause
//
// Copies to where another process will read: when plain stores are given up for streaming ones, and taken up again;
// and that streamed bytes are the same, whatever the alignment.
#include "exec/host_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace xyl::test {
namespace {

constexpr std::uint64_t slow_ns = 30, fast_ns = 3;

// One window of plain stores that took so long a line.
void window(store_choice& c, std::uint64_t line_ns) {
  c.stored(store_choice::window_bytes, store_choice::window_bytes / store_choice::line_bytes * line_ns);
}
// Streams until plain stores are tried again; returns for how many bytes.
std::uint64_t stream_to_the_end(store_choice& c) {
  constexpr std::uint64_t step = 1 << 20;
  std::uint64_t bytes = 0;
  for (; c.streams(); bytes += step) c.streamed(step);
  return bytes;
}

TEST(store_choice, first_bytes_say_nothing) {
  store_choice c;
  EXPECT_FALSE(c.streams());
  EXPECT_FALSE(c.looks());
  c.stored(store_choice::grace_bytes - 1);
  EXPECT_FALSE(c.looks());
  c.stored(1);
  EXPECT_TRUE(c.looks());
}

TEST(store_choice, streams_after_two_slow_windows_in_a_row) {
  store_choice c;
  c.stored(store_choice::grace_bytes);
  for (int round = 0; round < 3; ++round) {
    window(c, slow_ns);
    ASSERT_FALSE(c.streams()) << "one slow window may be a preempted writer";
    window(c, fast_ns);
  }
  window(c, slow_ns);
  window(c, slow_ns);
  EXPECT_TRUE(c.streams());
}

TEST(store_choice, short_copies_make_windows_together) {
  store_choice c;
  c.stored(store_choice::grace_bytes);
  constexpr std::uint64_t bytes = 4096;
  std::uint64_t told = 0;
  for (; !c.streams(); told += bytes) {
    ASSERT_LT(told, 2 * store_choice::window_bytes);
    c.stored(bytes, bytes / store_choice::line_bytes * slow_ns);
  }
  EXPECT_EQ(told, 2 * store_choice::window_bytes);
}

TEST(store_choice, tries_plain_stores_again_and_ever_more_seldom) {
  store_choice c;
  c.stored(store_choice::grace_bytes);
  std::uint64_t expected = store_choice::first_stretch;
  for (int round = 0; round < 8; ++round) {
    window(c, slow_ns);
    window(c, slow_ns);
    ASSERT_EQ(stream_to_the_end(c), expected) << round;
    EXPECT_FALSE(c.looks()) << "lines that were streamed have left all caches";
    c.stored(store_choice::grace_bytes);
    expected = std::min(2 * expected, store_choice::longest_stretch);
  }
  window(c, fast_ns);
  EXPECT_FALSE(c.streams());
  window(c, slow_ns);
  window(c, slow_ns);
  EXPECT_EQ(stream_to_the_end(c), store_choice::first_stretch) << "a fast window forgets the past";
}

TEST(host_stage, streamed_bytes_are_the_same_and_no_others_are_written) {
  constexpr std::size_t room = 3000;
  alignas(64) std::byte source[room], expected[room], plain[room], streamed[room], past[room];
  std::mt19937 random(7);
  host_stage writes_plainly, streams(store_choice::streaming_for(1ull << 40));
  std::vector<std::byte> much(1 << 20);
  for (std::uint64_t copied = 0; copied <= store_choice::grace_bytes; copied += much.size())
    writes_plainly.copy(much.data(), std::vector<std::byte>(much.size()).data(), much.size());
  for (int round = 0; round < 4000; ++round) {
    for (std::byte& b : source) b = static_cast<std::byte>(random());
    const std::size_t from = random() % 200, to = random() % 200,
                      bytes = round % 4 == 0 ? random() % 200 : random() % (room - 200);
    for (std::byte* all : {expected, plain, streamed, past}) std::memset(all, round, room);
    std::memcpy(expected + to, source + from, bytes);
    writes_plainly.copy(plain + to, source + from, bytes);
    streams.copy(streamed + to, source + from, bytes);
    streams.settle();
    copy_past_caches(past + to, source + from, bytes);
    for (const std::byte* got : {plain, streamed, past})
      ASSERT_EQ(std::memcmp(got, expected, room), 0) << bytes << " bytes from " << from << " to " << to;
  }
}

TEST(host_stage, goes_back_to_plain_stores_when_the_stretch_is_over) {
  constexpr std::size_t size = 4096;
  alignas(64) std::byte from[size], to[size];
  host_stage s(store_choice::streaming_for(10 * size));
  for (int round = 0; round < 30; ++round) {
    std::memset(from, round + 1, size);
    s.copy(to, from, size);
    ASSERT_EQ(s.is_settled(), round >= 10) << round;
    s.settle();
    ASSERT_TRUE(s.is_settled());
    ASSERT_EQ(std::memcmp(to, from, size), 0) << round;
  }
}

}  // namespace
}  // namespace xyl::test
