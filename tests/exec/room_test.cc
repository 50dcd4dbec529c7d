// SPDX-License-Identifier: BSD-3-Clause
//
// A launch that would write past its region is refused, and the largest that does not is not: for each form the
// largest accepted is found, and what it and one more would touch is worked out from the layout's own offsets.
#include "exec/room.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "comm/selection.hpp"
#include "comm/transfer_shape.hpp"

namespace xyl {
namespace {

// As communicators have it for devices.
layout workspace(std::uint32_t ranks, std::uint32_t blocks) {
  return layout::make(ranks, blocks, 2 << 20, 16 << 20, 2 << 20, 4, 0,
                      ranks <= 2 ? 9 << 18 : std::uint64_t{16 << 10} * ranks);
}

// The most that is accepted; more than `beyond` must not be.
std::uint64_t most_accepted(const std::function<result(std::uint64_t)>& check, std::uint64_t beyond) {
  EXPECT_EQ(check(beyond).code(), xylInternalError) << beyond;
  std::uint64_t good = 0, bad = beyond;
  while (bad - good > 1) {
    const std::uint64_t middle = good + (bad - good) / 2;
    (check(middle).ok() ? good : bad) = middle;
  }
  return good;
}

// one: the first byte of a region; next: the one behind it; end: of what `n` elements write there.
void expect_exact(const std::function<result(std::uint64_t)>& check, std::uint64_t one, std::uint64_t next,
                  const std::function<std::uint64_t(std::uint64_t)>& end, const std::string& what) {
  const std::uint64_t most = most_accepted(check, 1ull << 60);
  EXPECT_GT(most, 0u) << what;
  EXPECT_LE(one + end(most), next) << what << ": " << most << " are accepted and run into the next region";
  EXPECT_GT(one + end(most + 1), next) << what << ": " << most + 1 << " would fit and are refused";
  const result refused = check(most + 1);
  EXPECT_NE(refused.text().find("nothing was launched"), std::string::npos) << refused.text();
}

std::uint64_t ceiling(std::uint64_t n, std::uint64_t by) { return (n + by - 1) / by; }

TEST(room, a_launch_that_would_write_past_its_region_is_refused) {
  for (const std::uint32_t ranks : {2u, 3u, 4u, 8u, 64u})
    for (const std::uint32_t blocks : {2u, 128u})
      for (const unsigned element : {1u, 2u, 4u, 8u}) {
        const layout map = workspace(ranks, blocks);
        const std::string text = std::to_string(ranks) + " ranks, elements of " + std::to_string(element);
        const auto packets = [&](std::uint64_t n) { return ceiling(n * element, 8); };
        const auto bulk = [&](std::uint64_t n) { return ceiling(n * element, 16); };
        const auto packs = [&](std::uint64_t n) { return ceiling(bulk(n), wide_pack::units); };
        const auto sheets = [&](std::uint64_t n) { return ceiling(bulk(n), line_sheet::units); };
        const std::uint64_t packet_one = map.packet_offset(0, 0, 0), packet_next = map.header_offset(0, 1);
        const std::uint64_t bulk_one = map.bulk_offset(0, 0), bulk_next = map.bulk_offset(0, 1);
        const std::uint64_t slot_next = map.bulk_offset(1, 0);
        const auto whole = [&](algorithm how) {
          return [&map, element, how](std::uint64_t n) { return check_room(map, how, element, n); };
        };
        expect_exact(
            whole(algorithm::packet), packet_one, packet_next,
            [&](std::uint64_t n) { return packets(n) * sizeof(line); }, "packets " + text);
        expect_exact(
            whole(algorithm::two_shot_packet), packet_one, packet_next,
            [&](std::uint64_t n) { return 2 * ceiling(packets(n), ranks) * sizeof(line); },
            "two-shot packets " + text);
        expect_exact(
            whole(algorithm::one_shot), map.one_shot_offset(0, 0), ranks == 2 ? slot_next : bulk_next,
            [&](std::uint64_t n) { return bulk(n) * 16; }, "one-shot " + text);
        expect_exact(
            whole(algorithm::two_shot), bulk_one, bulk_next,
            [&](std::uint64_t n) { return 2 * ceiling(bulk(n), ranks) * 16; }, "two-shot " + text);
        expect_exact(
            whole(algorithm::ring), bulk_one, slot_next,
            [&](std::uint64_t n) { return (2 * ranks - 2) * ceiling(bulk(n), ranks) * 16; }, "ring " + text);
        expect_exact(
            whole(algorithm::wide_packet), map.wide_offset(0, 0),
            ranks == 2 ? map.wide_offset(1, 0) : map.wide_offset(0, 1),
            [&](std::uint64_t n) { return packs(n) * sizeof(wide_pack); }, "lines " + text);
        expect_exact(
            whole(algorithm::line_packet), map.wide_offset(0, 0),
            ranks == 2 ? map.wide_offset(1, 0) : map.wide_offset(0, 1),
            [&](std::uint64_t n) { return sheets(n) * line_sheet::bytes; }, "lines of 16 bytes " + text);

        const auto reduces = [&](reduce_form how) {
          return [&map, element, how](std::uint64_t n) { return check_room(map, how, element, n); };
        };
        expect_exact(
            reduces(reduce_form::packet), packet_one, packet_next,
            [&](std::uint64_t n) { return packets(n) * sizeof(line); }, "reduce, packets " + text);
        expect_exact(
            reduces(reduce_form::direct), bulk_one, bulk_next, [&](std::uint64_t n) { return bulk(n) * 16; },
            "reduce " + text);
        expect_exact(
            reduces(reduce_form::two_phase), bulk_one, bulk_next,
            [&](std::uint64_t n) { return 2 * ceiling(bulk(n), ranks) * 16; }, "two phases " + text);

        const auto pulled = [&](pull_form how) {
          return [&map, element, how](std::uint64_t n) { return check_room(map, how, element, n); };
        };
        expect_exact(
            pulled(pull_form::gathered), bulk_one, slot_next,
            [&](std::uint64_t n) { return ceiling(bulk(n), ranks) * 16; }, "gathered " + text);
        for (const unsigned blocks : {1u, 7u, 64u}) {
          const std::uint32_t step = 16;
          const std::uint64_t places = 2 * layout::step_places * std::uint64_t{step} * blocks * 16;
          EXPECT_EQ(check_steps(map, algorithm::two_shot, element, 1000, step, blocks).ok(),
                    places <= map.bulk_stride)
              << blocks << " blocks, " << text;
        }
        EXPECT_TRUE(check_room(map, pull_form::two_shot, element, 1ull << 60).ok()) << "nothing is staged";

        expect_exact([&](std::uint64_t n) { return check_scratch(map, 3, n, element); }, map.scratch_offset(0),
                     map.message_offset(1, 0, 0), [&](std::uint64_t n) { return 3 * n * element; },
                     "scratch " + text);
      }
}

TEST(room, a_movement_that_would_write_past_its_region_is_refused) {
  for (const std::uint32_t ranks : {2u, 3u, 8u, 64u}) {
    const layout map = workspace(ranks, 64);
    const auto moved = [&](move_form how) {
      return [&map, how](std::uint64_t bytes) { return check_room(map, how, bytes); };
    };
    const std::string text = std::to_string(ranks) + " ranks";
    expect_exact(
        moved(move_form::packet), map.packet_offset(0, 0, 0), map.header_offset(0, 1),
        [](std::uint64_t n) { return ceiling(n, 8) * sizeof(line); }, "packets " + text);
    for (const move_form how : {move_form::direct, move_form::pull})
      expect_exact(
          moved(how), map.bulk_offset(0, 0), map.bulk_offset(0, 1),
          [](std::uint64_t n) { return ceiling(n, 16) * 16; }, text);
    expect_exact(
        moved(move_form::spread), map.bulk_offset(0, 0), map.bulk_offset(0, 1),
        [&](std::uint64_t n) { return ceiling(ceiling(n, 16), ranks - 1) * 16; }, "spread " + text);
  }
}

TEST(room, a_count_that_no_number_of_bytes_holds_is_refused) {
  const layout map = workspace(2, 64);
  for (const algorithm how : {algorithm::packet, algorithm::one_shot, algorithm::two_shot, algorithm::ring,
                              algorithm::two_shot_packet, algorithm::wide_packet, algorithm::line_packet})
    EXPECT_FALSE(check_room(map, how, 8, UINT64_MAX - 7).ok()) << name_of(how);
  EXPECT_FALSE(check_room(map, reduce_form::direct, 8, UINT64_MAX - 7).ok());
  EXPECT_FALSE(check_steps(map, algorithm::two_shot, 8, UINT64_MAX - 7, 128, 16).ok());
  EXPECT_FALSE(check_steps(map, algorithm::one_shot, 8, 64, 128, 16).ok()) << "not in steps";
  EXPECT_TRUE(check_room(workspace(1, 64), algorithm::one_shot, 8, UINT64_MAX - 7).ok()) << "a copy";
}

TEST(room, fused_rows_that_would_write_past_their_region_are_refused) {
  for (const std::uint32_t ranks : {2u, 3u, 8u}) {
    const layout map = workspace(ranks, 64);
    const std::uint64_t packet_one = map.packet_offset(0, 0, 0), packet_next = map.header_offset(0, 1);
    const std::uint64_t bulk_one = map.bulk_offset(0, 0), bulk_next = map.bulk_offset(0, 1);
    for (const bool has_residual : {false, true}) {
      constexpr unsigned hidden = 1000, element = 2;
      std::byte residual;
      fused_work w;
      w.hidden = hidden;
      w.pattern = fused_pattern::norm;
      w.residual_out = has_residual ? &residual : nullptr;
      w.choose_wire();
      const auto rows = [&](fused_form how) {
        return [&, how](std::uint64_t n) {
          w.spread((uses_packets(how) ? 8 : 16) / element, 1);
          w.rows = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, UINT32_MAX));
          return check_room(map, how, element, w);
        };
      };
      // 250 packets of a row are padded to 256.
      expect_exact(
          rows(fused_form::packet), packet_one, packet_next, [](std::uint64_t n) { return n * 256 * sizeof(line); },
          "fused packets");
      expect_exact(
          rows(fused_form::two_shot_packet), packet_one, packet_next,
          [&](std::uint64_t n) { return n * 256 * (has_residual ? 3 : 2) * sizeof(line); },
          "fused two-shot packets");
      expect_exact(
          rows(fused_form::one_shot), bulk_one, bulk_next, [](std::uint64_t n) { return n * hidden * element; },
          "fused one-shot");
      expect_exact(
          rows(fused_form::two_shot), bulk_one, bulk_next, [](std::uint64_t n) { return n * 2 * hidden * element; },
          "fused two-shot");
      EXPECT_TRUE(rows(fused_form::one_shot_pull)(UINT32_MAX).ok()) << "nothing is staged";
    }
  }
}

TEST(room, rows_whose_blocks_meet_in_more_lines_than_there_are_are_refused) {
  const layout map = workspace(2, 64);
  fused_work w;
  w.hidden = 7168;
  w.pattern = fused_pattern::norm;
  w.spread(4, 8);
  ASSERT_GT(w.split, 1);
  w.rows = layout::team_rows;
  EXPECT_TRUE(check_room(map, fused_form::packet, 2, w).ok());
  EXPECT_FALSE(check_room(map, fused_form::two_shot, 2, w).ok()) << "rows of all shares meet";
  ++w.rows;
  EXPECT_EQ(check_room(map, fused_form::packet, 2, w).code(), xylInternalError);
  w.is_clustered = true;
  EXPECT_TRUE(check_room(map, fused_form::packet, 2, w).ok()) << "clusters meet elsewhere";
  w.row_line_stride = 7168 / 4 - 1;
  EXPECT_FALSE(check_room(map, fused_form::packet, 2, w).ok()) << "rows would overlap";
}

TEST(room, transfers_that_would_write_past_their_slots_are_refused) {
  const layout map = workspace(4, 64);
  const auto is_good = [&](std::vector<transfer> all, unsigned blocks) {
    const result r = check_room(map, all, blocks, 0);
    EXPECT_TRUE(r.ok() || r.code() == xylInternalError);
    return r.ok();
  };
  transfer t;
  t.peer = 1;
  t.blocks = static_cast<std::uint16_t>(map.pair_blocks);
  EXPECT_TRUE(is_good({t}, t.blocks));
  EXPECT_FALSE(is_good({t}, t.blocks - 1u)) << "blocks that are not launched";
  ++t.blocks;
  EXPECT_FALSE(is_good({t}, t.blocks)) << "there is no ring for the last block";
  t.slot_bytes = static_cast<std::uint32_t>(map.long_slot_room(t.blocks));
  EXPECT_TRUE(is_good({t}, t.blocks)) << "long messages need none";
  t.slot_bytes += 128;
  EXPECT_FALSE(is_good({t}, t.blocks));
  t.peer = 0;
  EXPECT_TRUE(is_good({t}, t.blocks)) << "what a rank has for itself goes through no slot";

  transfer both[2] = {};
  both[0].peer = both[1].peer = 3;
  both[1].first_block = 1;
  EXPECT_FALSE(is_good({both[0], both[1]}, 2)) << "two messages in one ring";
  both[1].sends = true;
  EXPECT_TRUE(is_good({both[0], both[1]}, 2));
  both[1].peer = 4;
  EXPECT_FALSE(is_good({both[0], both[1]}, 2)) << "there is no such rank";
}

// What callers cut with.
TEST(room, chunks_are_cut_so_that_they_fit_and_are_not_much_smaller) {
  for (const std::uint32_t ranks : {2u, 3u, 4u, 8u, 13u, 64u}) {
    const layout map = workspace(ranks, 64);
    for (const unsigned element : {1u, 2u, 4u, 8u}) {
      for (int a = 0; a < algorithms; ++a) {
        const auto how = static_cast<algorithm>(a);
        const std::uint64_t chunk = chunk_elements(how, map, ~0ull >> 1, element, true);
        EXPECT_TRUE(check_room(map, how, element, chunk).ok()) << name_of(how) << " " << ranks;
        const std::uint64_t more = chunk + 2 * std::uint64_t{line_sheet::units} * 16 * ranks / element;
        EXPECT_FALSE(check_room(map, how, element, more).ok()) << name_of(how) << " " << ranks;
      }
      const std::uint64_t piece = chunk_elements(algorithm::one_shot, map, ~0ull >> 1, element, false);
      EXPECT_TRUE(check_room(map, reduce_form::direct, element, piece).ok()) << ranks;
      EXPECT_TRUE(check_room(map, pull_form::gathered, element, gathered_pull_bytes(map) / element).ok()) << ranks;
      for (const unsigned blocks : {1u, 3u, 33u, 64u})
        for (const std::uint64_t bytes : {std::uint64_t{1} << 10, std::uint64_t{9} << 20, most_stepped_bytes})
          if (const std::uint32_t step = two_shot_step(bytes, map, blocks); step != 0) {
            EXPECT_TRUE(check_steps(map, algorithm::two_shot, element, bytes / element, step, blocks).ok())
                << ranks;
          }
    }
    for (std::uint64_t bytes = 0; bytes < 1ull << 40; bytes = bytes * 3 + 1)
      for (const unsigned most : {1u, 2u, 16u, 64u}) {
        transfer t;
        const transfer_shape shape = shape_of_transfer(bytes, map, most);
        t.peer = 1;
        t.blocks = shape.blocks;
        t.slot_bytes = shape.slot_bytes;
        const result r = check_room(map, {&t, 1}, shape.blocks, 0);
        EXPECT_TRUE(r.ok()) << bytes << " " << r.text();
        const transfer_shape swap = shape_of_swap(bytes, map, most);
        swapped both;
        for (transfer* way : {&both.out, &both.in}) {
          way->peer = 1;
          way->blocks = swap.blocks;
          way->slot_bytes = swap.slot_bytes;
          way->sends = way == &both.out;
        }
        EXPECT_TRUE(check_room(map, both, 0).ok()) << bytes;
        both.in.slot_bytes = static_cast<std::uint32_t>(map.long_slot_room(swap.blocks) + 128);
        EXPECT_EQ(check_room(map, both, 0).code(), xylInternalError) << bytes;
      }
  }
}

}  // namespace
}  // namespace xyl
