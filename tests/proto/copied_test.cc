// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives moved by copy engines, with queues as threads; built with ThreadSanitizer too.
#include <gtest/gtest.h>

#include <random>

#include "proto/copied_machine.hpp"

namespace xyl::test {
namespace {

class copied : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  copied_case plan(std::uint64_t seed) const {
    copied_case p;
    p.ranks = std::get<0>(GetParam());
    p.staged = std::get<1>(GetParam());
    p.seed = seed;
    // Chunks of one size, and smaller ones at both ends.
    p.stride = seed % 3 == 0 ? 512 : 1024;
    // The low half of the epoch wraps, and flags count on.
    p.last_epoch = seed % 2 ? epoch_zero : 0xfffffff6ull;
    return p;
  }
};

TEST_P(copied, bytes_are_right_in_chunks_of_any_number_between_calls_of_other_protocols) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 random(seed * 10 + static_cast<unsigned>(std::get<0>(GetParam())));
    copied_machine<> machine(plan(seed));
    std::vector<copied_plan> calls;
    for (const std::uint64_t bytes : {1ull, 200ull, 600ull, 3000ull, 9000ull, 15000ull}) {
      for (int n = 0; n < 2; ++n) {
        copied_plan c;
        c.kind = static_cast<int>(random() % kinds);
        c.count = 1 + (bytes + random() % 100) / element_bytes(c.kind);
        constexpr collective whats[] = {collective::all_reduce, collective::all_reduce, collective::all_gather,
                                        collective::all_to_all, collective::broadcast,  collective::reduce_scatter};
        c.what = whats[random() % std::size(whats)];
        c.in_place = random() % 2 && (c.what == collective::all_reduce || c.what == collective::all_to_all);
        c.shift = static_cast<unsigned>(random() % 3);
        calls.push_back(c);
      }
      copied_plan other;
      other.kind = static_cast<int>(random() % kinds);
      calls.push_back(other);
    }
    ASSERT_TRUE(machine.run(calls)) << "a rank gave up";
    ASSERT_EQ(machine.check(), "");
  }
}

// Slots are used again and again, and nobody is told when.
TEST_P(copied, long_messages_of_each_collective) {
  for (const collective what : {collective::all_reduce, collective::all_gather, collective::all_to_all,
                                collective::broadcast, collective::reduce_scatter}) {
    copied_machine<> machine(plan(static_cast<std::uint64_t>(what)));
    ASSERT_TRUE(machine.run({{0, 3000, false, 0, what}, {1, 5000, false, 1, what}})) << "a rank gave up";
    ASSERT_EQ(machine.check(), "");
  }
}

TEST_P(copied, a_call_that_differs_is_refused_before_an_output_is_touched) {
  copied_case p = plan(5);
  p.odd_rank = p.ranks - 1;
  copied_machine<> machine(p);
  ASSERT_FALSE(machine.run({{0, 500}, {0, 5000}}));
  for (int r = 0; r < p.ranks; ++r) {
    EXPECT_TRUE(machine.output(r, 1).untouched()) << r;
    EXPECT_EQ(machine.record(r).code, xylInvalidUsage) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(machines, copied, testing::Combine(testing::Values(2, 3, 4), testing::Bool()),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_ranks_" +
                                  (std::get<1>(info.param) ? "staged" : "straight");
                         });

TEST(copied_message, chunks_cover_a_message_and_fit_their_slots) {
  for (const unsigned ranks : {2u, 3u, 8u, 64u})
    for (const std::uint64_t slots : {std::uint64_t{layout::copy_slots} * ranks * 256, std::uint64_t{32} << 20}) {
      const layout map = layout::make(ranks, 1, 4096, 4096 * ranks, 0, 4, slots);
      for (const std::uint64_t bytes : {1ull, 15ull, 4096ull, 1'000'001ull, 5'000'000ull, 1ull << 27}) {
        const copied_message m = copied_message::cut(bytes, map);
        std::uint64_t next = 0;
        for (std::uint64_t i = 0; i < m.chunks(); ++i) {
          const copied_chunk k = m.chunk(i);
          ASSERT_EQ(k.first, next);
          ASSERT_EQ(k.first % 16, 0u);
          ASSERT_EQ(k.share % 16, 0u);
          ASSERT_LE(k.share, map.copy_stride / 2);
          std::uint64_t of_shares = 0;
          for (int p = 0; p < static_cast<int>(ranks); ++p) {
            ASSERT_EQ(k.begin_of(p), of_shares);
            of_shares += k.bytes_of(p);
          }
          ASSERT_EQ(of_shares, k.bytes);
          next += k.bytes;
        }
        ASSERT_EQ(next, bytes);
      }
    }
}

TEST(copied_message, pieces_fit_their_slots_and_are_smaller_at_both_ends_where_there_are_many) {
  bool some_taper = false;
  for (const std::uint64_t slots : {std::uint64_t{layout::copy_slots} * 2 * 256,
                                    std::uint64_t{layout::copy_slots} * 2 * 1024, std::uint64_t{32} << 20}) {
    const layout map = layout::make(2, 1, 4096, 8192, 0, 4, slots);
    for (const std::uint64_t bytes :
         {1ull, 15ull, 4096ull, 5119ull, 1'000'001ull, 5'000'000ull, 1ull << 22, (1ull << 22) + 1, 1ull << 27}) {
      const copied_message m = copied_message::cut_piece(bytes, map);
      const std::uint64_t chunks = m.chunks();
      std::uint64_t next = 0;
      for (std::uint64_t i = 0; i < chunks; ++i) {
        const copied_chunk k = m.chunk(i);
        ASSERT_EQ(k.first, next);
        ASSERT_EQ(k.first % 256, 0u);
        ASSERT_GT(k.bytes, 0u);
        ASSERT_LE(k.bytes, map.copy_stride);
        next += k.bytes;
      }
      ASSERT_EQ(next, bytes);
      if (!m.tapers) continue;
      some_taper = true;
      EXPECT_EQ(m.chunk(0).bytes * 2, m.chunk(1).bytes);
      EXPECT_LT(m.chunk(1).bytes, m.chunk(2).bytes);
      EXPECT_LE(m.chunk(chunks - 1).bytes * 4, m.chunk_bytes);
      EXPECT_EQ(m.chunk(chunks - 2).bytes * 2, m.chunk_bytes);
    }
  }
  EXPECT_TRUE(some_taper);
}

}  // namespace
}  // namespace xyl::test
