// SPDX-License-Identifier: BSD-3-Clause
//
// The workspace's regions do not overlap, are aligned and lie inside it, whatever the ranks and budgets; epochs
// skip what fresh memory could be taken for, and keep the slots in turn; ranges cover everything once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "proto/call.hpp"
#include "proto/partition.hpp"

namespace xyl::test {
namespace {

TEST(epoch, packet_epochs_are_never_those_of_fresh_memory) {
  for (const epoch_t start :
       {epoch_zero, epoch_t{0xfffffff0}, epoch_t{0x1fffffff0}, epoch_t{1} << 63, (epoch_t{1} << 63) + 0xfffffff0}) {
    epoch_t last = start;
    for (int i = 0; i < 64; ++i) {
      const epoch_t next = next_epoch(last);
      EXPECT_GT(next, last);
      EXPECT_NE(packet_epoch(next), 0u);
      EXPECT_NE(packet_epoch(next), 1u);
      EXPECT_NE(layout::slot(next), layout::slot(last)) << last;
      EXPECT_LE(next - last, 3u);
      last = next;
    }
  }
  EXPECT_EQ(next_epoch(epoch_zero), 2u);
  EXPECT_EQ(next_epoch(0xfffffffeull), 0xffffffffull);
  EXPECT_EQ(next_epoch(0xffffffffull), 0x100000002ull);
}

struct region {
  std::uint64_t begin, end;
};

void expect_disjoint(std::vector<region> regions, std::uint64_t bytes) {
  std::sort(regions.begin(), regions.end(), [](region a, region b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < regions.size(); ++i) {
    ASSERT_LT(regions[i].begin, regions[i].end);
    ASSERT_LE(i ? regions[i - 1].end : 0, regions[i].begin);
  }
  ASSERT_LE(regions.back().end, bytes);
}

TEST(layout, regions_are_disjoint_aligned_and_inside) {
  for (unsigned ranks = 1; ranks <= 64; ++ranks)
    for (const unsigned blocks : {1u, 3u, 32u})
      for (const std::uint64_t packet_bytes : {0ull, 1ull, 1000ull, 65536ull, 2097152ull})
        for (const std::uint64_t bulk_bytes : {4096ull, 100'000ull, 8388608ull}) {
          const layout l = layout::make(ranks, blocks, packet_bytes, bulk_bytes, packet_bytes, 4u << blocks % 2,
                                        packet_bytes * 3);
          std::vector<region> regions{{0, sizeof(control_block)}};
          for (int f = 0; f <= static_cast<int>(flag_family::ring); ++f) {
            const auto family = static_cast<flag_family>(f);
            for (unsigned source = 0; source < (family == flag_family::ring ? 2 * ranks - 2 : ranks); ++source)
              for (unsigned b = 0; b < blocks; ++b) {
                const std::uint64_t at = l.flag_offset(family, source, b);
                ASSERT_EQ(at % 128, 0u);
                regions.push_back({at, at + sizeof(flag)});
              }
          }
          ASSERT_LE(l.pair_blocks, layout::most_pair_blocks(blocks));
          ASSERT_EQ(l.pair_chunk % 16, 0u);
          ASSERT_GE(l.pair_chunk, layout::inline_bytes());
          for (unsigned peer = 0; peer < ranks; ++peer)
            for (unsigned b = 0; b < l.pair_blocks; ++b) {
              const std::uint64_t sent = l.sent_offset(peer, b), received = l.received_offset(peer, b);
              regions.push_back({sent, sent + 8});
              regions.push_back({received, received + 8});
              for (unsigned n = 1; n <= l.pair_slots; ++n) {
                const std::uint64_t message = l.message_offset(peer, b, n);
                ASSERT_EQ(message % 128, 0u);
                ASSERT_EQ(message, l.message_offset(peer, b, n + 7 * l.pair_slots));
                regions.push_back({message, message + layout::header_bytes + l.pair_chunk});
              }
            }
          for (unsigned slot = 0; slot < 2; ++slot)
            for (unsigned source = 0; source < ranks; ++source) {
              const std::uint64_t packets = l.header_offset(slot, source), bulk = l.bulk_offset(slot, source);
              ASSERT_EQ(packets % 128, 0u);
              ASSERT_EQ(bulk % 4096, 0u);
              ASSERT_EQ(l.inline_offset(slot, source), packets + sizeof(line));
              ASSERT_EQ(l.packet_offset(slot, source, 0), l.inline_offset(slot, source) + l.inline_bytes());
              // Eight bytes of payload a line; the last line ends inside the region.
              ASSERT_EQ(l.packet_capacity() % 8, 0u);
              ASSERT_LE(l.packet_offset(slot, source, l.packet_capacity() / 8), packets + l.packet_stride);
              regions.push_back({packets, packets + l.packet_stride});
              regions.push_back({bulk, bulk + l.bulk_stride});
            }
          for (unsigned slot = 0; slot < 2 && blocks > 1; ++slot)
            for (unsigned row = 0; row < layout::team_rows; ++row)
              for (unsigned set = 0; set < layout::team_sets; ++set) {
                const std::uint64_t first = l.team_offset(slot, row, set, 0);
                regions.push_back({first, l.team_offset(slot, row, set, layout::team_groups - 1) + sizeof(line)});
                ASSERT_EQ(first % 128, 0u);
              }
          if (blocks > 1) {
            const std::uint64_t state = l.trial_offset();
            ASSERT_EQ(state % 4096, 0u);
            regions.push_back({state, state + layout::trial_state_bytes});
            for (unsigned source = 0; source < ranks; ++source) {
              for (const trial_flag what : {trial_flag::meeting, trial_flag::data}) {
                const std::uint64_t at = l.trial_flag_offset(what, source);
                ASSERT_EQ(at % 128, 0u);
                regions.push_back({at, at + sizeof(flag)});
              }
              for (unsigned slot = 0; slot < 2; ++slot) {
                const std::uint64_t data = l.trial_data_offset(slot, source);
                ASSERT_EQ(data % 128, 0u);
                regions.push_back({data, data + layout::trial_data_bytes});
              }
            }
          }
          for (unsigned chunk = 0; chunk < layout::copy_slots && l.copy_stride > 0; ++chunk)
            for (unsigned source = 0; source < ranks; ++source) {
              const std::uint64_t at = l.copied_offset(chunk, source);
              ASSERT_EQ(at % 256, 0u);
              ASSERT_EQ(at, l.copied_offset(chunk + 3 * layout::copy_slots, source));
              regions.push_back({at, at + l.copy_stride});
            }
          ASSERT_LE(layout::copy_slots * ranks * l.copy_stride, packet_bytes * 3);
          ASSERT_NO_FATAL_FAILURE(expect_disjoint(regions, l.bytes));
          ASSERT_EQ(l.bytes % 4096, 0u);
          // Of packets half is payload.
          ASSERT_GE(l.packet_capacity(), packet_bytes / ranks / 2 / 8 * 8);
          ASSERT_GE(l.bulk_stride, bulk_bytes / ranks);
        }
}

TEST(layout, calls_take_turns_over_the_spread_and_stay_inside_their_region) {
  layout l = layout::make(4, 1, 4096, 4 << 20);
  for (const std::uint64_t spread : {0ull, 4096ull, 98'304ull, 1ull << 40}) {
    l.spread = spread;
    for (const std::uint64_t bytes :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{128}, layout::near_bytes, layout::near_bytes + 1,
          std::uint64_t{20'000}, std::uint64_t{49'152}, l.bulk_stride}) {
      std::set<std::uint64_t> places;
      constexpr epoch_t first = 0xffffff00;
      for (epoch_t e = first; e < first + 20'000; e += 2) {
        const std::uint64_t at = l.place(e, bytes);
        ASSERT_EQ(at % 128, 0u);
        ASSERT_LE(at + bytes, l.bulk_stride);
        ASSERT_LE(at + bytes, std::max(spread, bytes));
        places.insert(at);
        if (places.size() > 1) {
          ASSERT_NE(at, l.place(e + 2, bytes)) << "the next call of the slot must lie elsewhere";
        }
      }
      const bool stays = bytes <= std::min(layout::near_bytes, spread / 64);
      EXPECT_EQ(places.size() > 1, !stays && 2 * bytes <= std::min(spread, l.bulk_stride))
          << spread << " " << bytes;
    }
  }
}

TEST(layout, what_different_writers_write_shares_no_line) {
  EXPECT_EQ(sizeof(line), 16u);
  EXPECT_EQ(sizeof(flag), 128u);
  EXPECT_EQ(sizeof(control_block) % 128, 0u);
  EXPECT_EQ(offsetof(control_block, poisoned) % 128, 0u);
  EXPECT_EQ(offsetof(control_block, gave_up) % 128, 0u);
  EXPECT_EQ(offsetof(control_block, identity) % 128, 0u);
}

TEST(poison, a_word_carries_code_and_culprit) {
  for (const int code : {0, 5, 6, 8})
    for (const int culprit : {0, 1, 255, -1}) {
      const std::uint64_t word = poison::pack(code, culprit);
      EXPECT_NE(word, 0u);
      EXPECT_EQ(poison::code(word), code);
      EXPECT_EQ(poison::culprit(word), culprit);
    }
}

TEST(poison, calls_that_differ_do_not_concern_the_call_before) {
  for (const epoch_t e : {epoch_t{2}, epoch_t{0x7fff}, epoch_t{0xffffffff}, (epoch_t{1} << 63) + 0xffffffff}) {
    const std::uint64_t differ = poison::pack(xylInvalidUsage, 3, next_epoch(e));
    EXPECT_FALSE(poison::concerns(differ, e));
    EXPECT_TRUE(poison::concerns(differ, next_epoch(e)));
    EXPECT_TRUE(poison::concerns(differ, next_epoch(next_epoch(e))));
    EXPECT_TRUE(poison::concerns(poison::pack(xylTimeout, 3, next_epoch(e)), e));
    EXPECT_TRUE(poison::concerns(poison::pack(xylRemoteError, 3), e));
    EXPECT_EQ(poison::code(differ), xylInvalidUsage);
    EXPECT_EQ(poison::culprit(differ), 3);
    EXPECT_FALSE(poison::concerns(0, e));
    // Host and device calls are numbered apart.
    EXPECT_TRUE(poison::concerns(differ, e, true));
    const std::uint64_t on_device = poison::pack(xylInvalidUsage, 3, next_epoch(e), true);
    EXPECT_FALSE(poison::concerns(on_device, e, true));
    EXPECT_TRUE(poison::concerns(on_device, e, false));
  }
}

TEST(poison, of_pairs_concerns_everybody_and_all_poison_concerns_them) {
  for (const epoch_t next : {epoch_t{2}, epoch_t{0x3fff}, epoch_t{0xfffff002}, (epoch_t{1} << 63) + 0xffffffff}) {
    const epoch_t pair = poison::epoch_of_pairs(next);
    for (const bool device : {false, true}) {
      const std::uint64_t of_pair = poison::pack(xylInvalidUsage, 1, pair, device);
      for (epoch_t e = next - 2; e < next + 3; ++e) {
        EXPECT_TRUE(poison::concerns(of_pair, e, device));
        EXPECT_TRUE(poison::concerns(poison::pack(xylInvalidUsage, 1, e, device), pair, device));
      }
      EXPECT_TRUE(poison::concerns(of_pair, pair, device));
    }
    EXPECT_FALSE(poison::concerns(0, pair));
  }
}

TEST(fingerprint, depends_on_every_field) {
  const call_record plain;
  std::vector<std::uint64_t> seen{fingerprint(plain)};
  const auto add = [&](auto change) {
    call_record r;
    change(r);
    seen.push_back(fingerprint(r));
  };
  add([](call_record& r) { r.what = collective::all_reduce; });
  add([](call_record& r) { r.type = 1; });
  add([](call_record& r) { r.operation = 1; });
  add([](call_record& r) { r.device = 1; });
  add([](call_record& r) { r.root = 1; });
  add([](call_record& r) { r.count = 1; });
  add([](call_record& r) { r.count = 1ull << 63; });
  add([](call_record& r) { r.selection = 1; });
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
}

TEST(partition, parts_cover_everything_once_and_in_order) {
  for (const std::uint64_t total : {0ull, 1ull, 2ull, 7ull, 8ull, 9ull, 1000ull, 1ull << 40})
    for (const std::uint64_t parts : {1ull, 2ull, 3ull, 8ull, 64ull}) {
      std::uint64_t end = 0;
      for (std::uint64_t i = 0; i < parts; ++i) {
        const range r = part_of(total, parts, i);
        EXPECT_EQ(r.begin, end);
        EXPECT_LE(r.size(), part_of(total, parts, 0).size());
        end = r.end;
      }
      EXPECT_EQ(end, total);
    }
  EXPECT_EQ(units_of(0, 4), 0u);
  EXPECT_EQ(units_of(1, 4), 1u);
  EXPECT_EQ(units_of(4, 4), 1u);
  EXPECT_EQ(units_of(5, 4), 2u);
}

}  // namespace
}  // namespace xyl::test
