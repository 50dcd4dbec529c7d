// SPDX-License-Identifier: BSD-3-Clause
#include "comm/selection.hpp"

#include <gtest/gtest.h>

namespace xyl {
namespace {

constexpr algorithm every_algorithm[] = {algorithm::packet,     algorithm::one_shot,        algorithm::two_shot,
                                         algorithm::ring,       algorithm::two_shot_packet, algorithm::wide_packet,
                                         algorithm::line_packet};

// What a chunk needs of the workspace, from the protocols' own addressing.
std::uint64_t bytes_needed(algorithm how, const layout& map, std::uint64_t bytes) {
  const std::uint64_t units = (bytes + 15) / 16, share = (units + map.ranks - 1) / map.ranks;
  switch (how) {
    case algorithm::packet:
      return (bytes + 7) / 8 * sizeof(line) + map.header_bytes;  // of a packet region
    case algorithm::one_shot:
      return units * 16;  // of a bulk region
    case algorithm::two_shot:
      return 2 * share * 16;  // of a bulk region
    case algorithm::two_shot_packet:
      return 2 * (((bytes + 7) / 8 + map.ranks - 1) / map.ranks) * sizeof(line) + map.header_bytes;
    case algorithm::wide_packet:
      return (units + wide_pack::units - 1) / wide_pack::units * sizeof(wide_pack);
    case algorithm::line_packet:
      return (units + line_sheet::units - 1) / line_sheet::units * line_sheet::bytes;
    case algorithm::ring:
      return (2 * map.ranks - 2) * share * 16;  // of all bulk regions of a slot
  }
  return ~0ull;
}

TEST(selection, chunks_fit_the_workspace_for_any_number_of_ranks) {
  for (std::uint32_t ranks = 2; ranks <= 256; ++ranks)
    for (std::uint64_t budget :
         {std::uint64_t{4096} * ranks, std::uint64_t{256} << 10 << (ranks / 64), std::uint64_t{16} << 20})
      for (algorithm how : every_algorithm)
        for (unsigned element : {1u, 2u, 4u, 8u}) {
          const layout map = layout::make(ranks, 1, std::max<std::uint64_t>(budget / 16, 64 * ranks), budget, 0, 4,
                                          0, std::max<std::uint64_t>(budget / 8, 2048 * ranks));
          const std::uint64_t elements = chunk_elements(how, map, ~0ull >> 1, element, true);
          ASSERT_GT(elements, 0u);
          const std::uint64_t room = uses_packets(how)        ? map.packet_stride
                                     : uses_wide_packets(how) ? map.wide_packs() * sizeof(wide_pack)
                                     : uses_line_packets(how) ? map.line_sheets() * line_sheet::bytes
                                     : how == algorithm::ring ? map.bulk_stride * ranks
                                                              : map.bulk_stride;
          ASSERT_LE(bytes_needed(how, map, elements * element), room) << name_of(how) << " ranks " << ranks;
        }
}

TEST(selection, a_chunk_of_a_reduce_between_two_devices_stays_in_its_region) {
  for (const unsigned blocks : {1u, 2u, 128u}) {
    const layout map = layout::make(2, blocks, 2 << 20, 16 << 20);
    EXPECT_EQ(chunk_elements(algorithm::one_shot, map, ~0ull >> 1, 1, false), map.bulk_stride);
    EXPECT_EQ(chunk_elements(algorithm::one_shot, map, ~0ull >> 1, 1, true),
              (blocks > 1 ? 2 : 1) * map.bulk_stride);
    // Of either rank, in either slot, the whole of it lies in that slot.
    for (const unsigned slot : {0u, 1u})
      for (const unsigned source : {0u, 1u}) {
        EXPECT_LE(map.bulk_offset(slot, source) + map.bulk_stride, map.bulk + (slot + 1) * 2 * map.bulk_stride);
        EXPECT_LE(map.one_shot_offset(slot, source) + map.one_shot_capacity(),
                  map.bulk + (slot + 1) * 2 * map.bulk_stride);
      }
  }
}

TEST(selection, takes_from_buffers_only_where_it_is_wished_for_and_all_ranks_can_read) {
  parameters p;
  p.single_copy = single_copy_use::always;
  const selection able = selection::defaults(2, p, 0, true), unable = selection::defaults(2, p, 0, false);
  EXPECT_EQ(able.single_copy_bytes, 64u << 10);
  EXPECT_EQ(unable.single_copy_bytes, UINT64_MAX);
  EXPECT_NE(able.hash(), unable.hash());
  EXPECT_EQ(selection::defaults(1, p, 0, true).single_copy_bytes, UINT64_MAX);
  p.forced_algorithm = algorithm::two_shot;
  EXPECT_EQ(selection::defaults(2, p, 0, true).single_copy_bytes, UINT64_MAX);
  EXPECT_EQ(selection::defaults(2, {}, 0, true).hash(), unable.hash());
}

TEST(selection, thresholds_of_the_environment_are_kept_and_force_wins) {
  parameters p;
  p.packet_bytes = 100;
  p.one_shot_bytes = 200;
  selection s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose(s.host, 100, true), algorithm::packet);
  EXPECT_EQ(s.choose(s.device, 101, true), algorithm::one_shot);
  EXPECT_EQ(selection::defaults(4, {}, 16).choose(s.device, 300, true), algorithm::two_shot);
  const selection unset = selection::defaults(4, {}, 16);
  EXPECT_EQ(unset.choose(unset.device, 300 << 10, true), algorithm::two_shot_packet);
  EXPECT_EQ(s.choose(s.host, 201, true), algorithm::two_shot);
  p.forced_algorithm = algorithm::ring;
  s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose(s.host, 1, true), algorithm::ring);
  s = selection::defaults(1, p, 16);
  EXPECT_EQ(s.choose(s.host, 1, true), algorithm::one_shot) << "a rank alone has no peer to wait for";
}

TEST(selection, copy_engines_move_long_messages_where_devices_meet_in_host_memory_or_somebody_says_so) {
  parameters p;
  const selection straight = selection::defaults(2, p, 16), staged = selection::defaults(2, p, 16, false, true);
  EXPECT_EQ(straight.copy_engine_bytes, UINT64_MAX);
  EXPECT_LT(staged.copy_engine_bytes, UINT64_MAX);
  EXPECT_EQ(staged.device.from, selection::origin::staged);
  EXPECT_TRUE(staged.plausible(2));
  EXPECT_NE(straight.hash(), staged.hash());
  EXPECT_EQ(selection::defaults(1, p, 16, false, true).copy_engine_bytes, UINT64_MAX);
  EXPECT_LE(staged.device.packet_bytes, straight.device.packet_bytes)
      << "packets are twice the bytes, and the link is slower";
  p.copy_engine_bytes = 1 << 20;
  EXPECT_EQ(selection::defaults(2, p, 16).copy_engine_bytes, 1u << 20);
  p.copy_engine_bytes = 0;
  EXPECT_EQ(selection::defaults(2, p, 16, false, true).copy_engine_bytes, UINT64_MAX);
  p.copy_engine_bytes = 1 << 20;
  p.forced_algorithm = algorithm::ring;
  EXPECT_EQ(selection::defaults(2, p, 16, false, true).copy_engine_bytes, UINT64_MAX);
}

TEST(selection, blocks_never_exceed_what_is_co_resident) {
  parameters p;
  for (unsigned most : {1u, 16u, 64u}) {
    const selection s = selection::defaults(2, p, most);
    for (algorithm how : every_algorithm)
      for (std::uint64_t bytes : {0ull, 1ull, 5000ull, 1ull << 20, 1ull << 40}) {
        EXPECT_GE(s.blocks_for(how, bytes), 1u);
        EXPECT_LE(s.blocks_for(how, bytes), most);
      }
  }
  p.max_blocks = 3;
  EXPECT_EQ(selection::defaults(2, p, 64).max_blocks, 3u);
}

TEST(selection, without_packets_devices_use_flags_for_every_size) {
  for (int ranks : {2, 3, 4, 8})
    for (bool has_ranges : {false, true}) {
      selection s = selection::defaults(ranks, {}, 16);
      const selection::range ranges[] = {{100, static_cast<std::uint64_t>(algorithm::packet)},
                                         {10'000, static_cast<std::uint64_t>(algorithm::two_shot_packet)},
                                         {UINT64_MAX, static_cast<std::uint64_t>(algorithm::ring)}};
      if (has_ranges) {
        ASSERT_TRUE(selection::set_ranges(s.device, ranges, selection::origin::cache));
      }
      const selection before = s;
      s.avoid_packets();
      EXPECT_TRUE(s.plausible(static_cast<std::uint32_t>(ranks)));
      for (std::uint64_t bytes = 1; bytes < 1ull << 40; bytes *= 2) {
        const algorithm was = before.choose(before.device, bytes, true), is = s.choose(s.device, bytes, true);
        EXPECT_FALSE(uses_packets(is)) << bytes;
        // Nothing else changes.
        if (!uses_packets(was)) {
          EXPECT_EQ(is, was) << ranks << " " << bytes;
        }
        EXPECT_EQ(s.choose(s.host, bytes, true), before.choose(before.host, bytes, true));
      }
      EXPECT_EQ(s.choose(s.device, 64, true), algorithm::one_shot);
    }
}

TEST(selection, registered_buffers_are_used_in_place_from_a_size_on_and_as_is_wished) {
  parameters p;
  selection s = selection::defaults(4, p, 16);
  const std::uint64_t least = s.device.pull_bytes;
  EXPECT_EQ(s.choose_pull(s.device, least - 1, true, true), std::nullopt);
  EXPECT_EQ(s.choose_pull(s.device, least, true, true), pull_form::two_shot);
  EXPECT_EQ(s.choose_pull(s.device, 64 << 20, true, false), pull_form::two_shot);
  EXPECT_EQ(s.choose_pull(s.device, 64 << 20, false, false), pull_form::gathered);
  EXPECT_EQ(selection::defaults(1, p, 16).choose_pull(s.device, 64 << 20, true, true), std::nullopt);
  EXPECT_EQ(s.device.fetched_bytes, UINT64_MAX);
  p.forced_algorithm = algorithm::ring;
  s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose_pull(s.device, 64 << 20, true, true), std::nullopt) << "XYLEM_ALGO says how";
  p.pull = pull_use::one_shot;
  s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose_pull(s.host, 1, true, false), pull_form::one_shot);
  EXPECT_EQ(s.choose_pull(s.host, 1, true, true), pull_form::two_shot)
      << "an input that is overwritten while it is read";
  p.pull = pull_use::two_shot;
  s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose_pull(s.device, 1, true, false), pull_form::two_shot);
  EXPECT_EQ(s.choose_pull(s.device, 1, false, false), pull_form::gathered);
  p.pull = pull_use::never;
  s = selection::defaults(4, p, 16);
  EXPECT_EQ(s.choose_pull(s.device, UINT64_MAX - 1, true, true), std::nullopt);
  p = {};
  p.pull = pull_use::staged;
  EXPECT_EQ(selection::defaults(4, p, 16).device.fetched_bytes, 0u);
}

TEST(selection, fused_calls_with_registered_inputs_pull_between_two_sizes_and_as_is_wished) {
  parameters p;
  selection s = selection::defaults(2, p, 16);
  const std::uint64_t least = s.fused_pull_bytes, most = s.most_fused_pull_bytes;
  ASSERT_LT(least, most);
  EXPECT_EQ(s.choose_fused_pull(true, least - 1, false), std::nullopt);
  EXPECT_EQ(s.choose_fused_pull(true, least, false), fused_form::one_shot_pull);
  EXPECT_EQ(s.choose_fused_pull(true, most, false), fused_form::one_shot_pull);
  EXPECT_EQ(s.choose_fused_pull(true, most, true), std::nullopt) << "pushed rows are faster";
  EXPECT_EQ(selection::defaults(4, p, 16).choose_fused_pull(true, least, false), std::nullopt)
      << "two steps, of which the first pulls, are faster";
  EXPECT_EQ(s.choose_fused_pull(true, most + 1, false), std::nullopt) << "two steps are faster";
  EXPECT_EQ(s.choose_fused_pull(false, s.host.pull_bytes - 1, false), std::nullopt);
  EXPECT_EQ(selection::defaults(4, p, 16).choose_fused_pull(false, 64 << 20, false), fused_form::two_shot_pull);
  EXPECT_EQ(selection::defaults(2, p, 16).choose_fused_pull(false, 64 << 20, false), fused_form::one_shot_pull);
  EXPECT_EQ(selection::defaults(2, p, 16).choose_fused_pull(false, 64 << 20, true), fused_form::two_shot_pull);
  EXPECT_EQ(selection::defaults(1, p, 16).choose_fused_pull(true, least, false), std::nullopt);
  p.forced_algorithm = algorithm::packet;
  EXPECT_EQ(selection::defaults(2, p, 16).choose_fused_pull(true, least, false), std::nullopt)
      << "XYLEM_ALGO says how";
  for (const bool one_shot : {true, false}) {
    p.pull = one_shot ? pull_use::one_shot : pull_use::two_shot;
    s = selection::defaults(4, p, 16);
    const fused_form on_hosts = one_shot ? fused_form::one_shot_pull : fused_form::two_shot_pull;
    EXPECT_EQ(s.choose_fused_pull(false, 1, false), on_hosts);
    EXPECT_EQ(s.choose_fused_pull(false, 64 << 20, true), fused_form::two_shot_pull)
        << "rows that only their owners may read";
    // Devices have the one-shot form alone, and only for two ranks.
    const selection two = selection::defaults(2, p, 16);
    const auto on_devices = one_shot ? std::optional(fused_form::one_shot_pull) : std::nullopt;
    EXPECT_EQ(two.choose_fused_pull(true, 1, false), on_devices);
    EXPECT_EQ(two.choose_fused_pull(true, 64 << 20, true), std::nullopt);
    EXPECT_EQ(s.choose_fused_pull(true, 1, false), std::nullopt);
  }
  p.pull = pull_use::never;
  EXPECT_EQ(selection::defaults(2, p, 16).choose_fused_pull(true, least, false), std::nullopt);
}

TEST(selection, chunks_that_pass_through_bulk_data_fit_there) {
  for (std::uint32_t ranks = 2; ranks <= 64; ++ranks)
    for (const std::uint64_t budget : {std::uint64_t{4096} * ranks, std::uint64_t{16} << 20}) {
      const layout map = layout::make(ranks, 1, 64 * ranks, budget);
      const std::uint64_t room = map.bulk_stride * ranks;
      // A share of the result.
      const std::uint64_t gathered = gathered_pull_bytes(map);
      EXPECT_LE(gathered / ranks, room);
      EXPECT_GT(gathered, 0u);
      EXPECT_EQ(gathered % (16 * ranks), 0u) << "shares are whole units";
    }
}

TEST(selection, hash_differs_where_a_field_differs) {
  parameters p;
  const selection a = selection::defaults(4, p, 16);
  selection b = a;
  EXPECT_EQ(a.hash(), b.hash());
  b.device.chunk_bytes ^= 1;
  EXPECT_NE(a.hash(), b.hash());
  b = a;
  b.max_blocks ^= 1;
  EXPECT_NE(a.hash(), b.hash());
}

// Mixtures of experts and sums alone take one launch, whatever is faster for the others.
TEST(selection, rows_that_cannot_take_two_steps_are_in_packets_as_long_as_that_is_worth_it) {
  parameters p;
  const selection eight = selection::defaults(8, p, 16), four = selection::defaults(4, p, 16);
  EXPECT_LT(eight.two_step_bytes, eight.fused_two_shot_packet_bytes);
  EXPECT_LE(eight.fused_packet_bytes, eight.two_step_bytes);
  EXPECT_EQ(four.two_step_bytes, four.fused_two_shot_packet_bytes);
  p.two_step_bytes = 64 << 10;
  for (const int ranks : {4, 8}) {
    const selection asked = selection::defaults(ranks, p, 16);
    EXPECT_EQ(asked.two_step_bytes, 64u << 10);
    EXPECT_EQ(asked.fused_two_shot_packet_bytes, 64u << 10);
  }
}

TEST(selection, rows_go_in_slices_among_four_ranks_unless_two_steps_are_asked_for) {
  parameters p;
  const selection four = selection::defaults(4, p, 16);
  EXPECT_LT(four.fused_slices_bytes, four.most_fused_slices_bytes);
  EXPECT_GT(four.fused_slices_bytes, four.two_step_bytes) << "packets, two steps, slices, two steps again";
  for (const int ranks : {1, 2, 3, 8})
    EXPECT_EQ(selection::defaults(ranks, p, 16).fused_slices_bytes, UINT64_MAX) << ranks;
  EXPECT_EQ(selection::defaults(4, p, 16, false, true).fused_slices_bytes, UINT64_MAX) << "in host memory";
  p.two_step_bytes = 64 << 10;
  EXPECT_EQ(selection::defaults(4, p, 16).fused_slices_bytes, UINT64_MAX);
}

}  // namespace
}  // namespace xyl
