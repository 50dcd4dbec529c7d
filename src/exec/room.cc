// SPDX-License-Identifier: BSD-3-Clause
#include "exec/room.hpp"

#include <bitset>

#include "proto/flagged.hpp"
#include "proto/fused_slices.hpp"
#include "proto/fused_two_shot_packet.hpp"
#include "proto/partition.hpp"

namespace xyl {

namespace {

// Compared in what a region is counted in, since bytes of a wrong count could be more than 64 bits hold.
result compare(const char* what, std::uint64_t needed, std::uint64_t there, const char* counted) {
  if (needed <= there) return {};
  return error(
      xylInternalError,
      "a launch of %s would write %llu %s into a region of the workspace that has room for %llu; nothing was "
      "launched. This is a fault of the library: please report it with this line",
      what, static_cast<unsigned long long>(needed), counted, static_cast<unsigned long long>(there));
}

constexpr const char* packets = "packets";
constexpr const char* packs = "pairs of lines";
constexpr const char* sheets = "lines of warps";
constexpr const char* units = "units of 16 bytes";
constexpr const char* rows = "rows";

std::uint64_t packet_room(const layout& map) { return (map.packet_stride - layout::header_bytes) / sizeof(line); }
std::uint64_t unit_room(const layout& map) { return map.bulk_stride / 16; }
std::uint64_t share_of(std::uint64_t total, std::uint64_t ranks) { return units_of(total, ranks); }

// A number of things that stand twice in a region: no overflow, as a half of what there is.
result compare_twice(const char* what, std::uint64_t half, std::uint64_t there, const char* counted) {
  return compare(what, half, there / 2, counted);
}

}  // namespace

result check_room(const layout& map, algorithm how, unsigned element_bytes, std::uint64_t count) {
  if (map.ranks == 1) return {};  // a copy
  const char* const name = name_of(how);
  const std::uint64_t bulk = units_of(count, 16 / element_bytes), ranks = map.ranks;
  if (uses_packets(how)) {
    const std::uint64_t all = units_of(count, 8 / element_bytes);
    return has_shares(how) ? compare_twice(name, share_of(all, ranks), packet_room(map), packets)
                           : compare(name, all, packet_room(map), packets);
  }
  if (uses_wide_packets(how)) {
    const std::uint64_t all = units_of(bulk, wide_pack::units);
    return has_shares(how) ? compare_twice(name, share_of(all, ranks), map.wide_packs(), packs)
                           : compare(name, all, map.wide_packs(), packs);
  }
  if (uses_line_packets(how)) return compare(name, units_of(bulk, line_sheet::units), map.line_sheets(), sheets);
  if (how == algorithm::one_shot) return compare(name, bulk, map.one_shot_capacity() / 16, units);
  if (how == algorithm::two_shot) return compare_twice(name, share_of(bulk, ranks), unit_room(map), units);
  // Ring: a share for each step, across the regions of all sources.
  return compare(name, share_of(bulk, ranks), unit_room(map) * ranks / (2 * ranks - 2), units);
}

result check_steps(const layout& map, algorithm how, unsigned element_bytes, std::uint64_t count,
                   std::uint32_t step_units, unsigned blocks) {
  if (how != algorithm::two_shot)
    return error(xylInternalError, "a launch of %s in steps, which it does not take", name_of(how));
  const std::uint64_t part = units_of(share_of(units_of(count, 16 / element_bytes), map.ranks), blocks);
  XYL_TRY(compare("two-shot in steps", units_of(part, step_units), most_steps, "steps"));
  // Each block has places of its own.
  const std::uint64_t places = std::uint64_t{layout::step_places} * blocks;
  return compare_twice("two-shot in steps", places * step_units, unit_room(map), units);
}

result check_room(const layout& map, reduce_form how, unsigned element_bytes, std::uint64_t count) {
  if (map.ranks == 1) return {};
  if (how == reduce_form::packet)
    return compare("a reduction in packets", units_of(count, 8 / element_bytes), packet_room(map), packets);
  const std::uint64_t bulk = units_of(count, 16 / element_bytes);
  if (how == reduce_form::direct) return compare("a reduction", bulk, unit_room(map), units);
  return compare_twice("a reduction in two phases", share_of(bulk, map.ranks), unit_room(map), units);
}

result check_room(const layout& map, pull_form how, unsigned element_bytes, std::uint64_t count) {
  if (how != pull_form::gathered) return {};
  // The own slot, all of it: it is written by its owner alone.
  const std::uint64_t share = share_of(units_of(count, 16 / element_bytes), map.ranks);
  return compare("a pulled reduction", share, unit_room(map) * map.ranks, units);
}

result check_room(const layout& map, move_form how, std::uint64_t bytes) {
  if (map.ranks == 1) return {};
  if (how == move_form::packet)
    return compare("a movement in packets", units_of(bytes, 8), packet_room(map), packets);
  const std::uint64_t bulk = units_of(bytes, 16);
  return compare("a movement", how == move_form::spread ? share_of(bulk, map.ranks - 1) : bulk, unit_room(map),
                 units);
}

result check_room(const layout& map, fused_form how, unsigned element_bytes, const fused_work& w) {
  if (w.split > 1 && teams_meet(how, w) && !w.is_clustered) {
    const std::uint64_t lines = std::uint64_t{w.rows} * (uses_shares(how) ? map.ranks : 1);
    XYL_TRY(compare("fused rows whose blocks meet", lines, layout::team_rows, rows));
  }
  if (uses_packets(how)) {
    if (std::uint64_t{w.hidden} * element_bytes / 8 > w.row_line_stride)
      return error(xylInternalError, "a launch of fused packets with %u lines for a row of %u elements of %u bytes",
                   w.row_line_stride, w.hidden, element_bytes);
    const unsigned sent = uses_shares(how) ? 1 + two_shot_packets::rows_sent(w) : 1;
    return compare("fused packets", w.rows, packet_room(map) / w.row_line_stride / sent, rows);
  }
  if (how == fused_form::two_shot_slices) {
    const two_shot_slices::places at(w.hidden * element_bytes / 16, static_cast<int>(map.ranks));
    return compare("fused rows in slices", w.rows, map.bulk_stride / at.of_row(), rows);
  }
  const std::uint64_t scattered = pulls(how) ? 0 : std::uint64_t{w.hidden} * element_bytes;
  const std::uint64_t row = scattered + (uses_shares(how) ? w.wire_row_bytes(element_bytes) : 0);
  return row == 0 ? result() : compare("fused rows", w.rows, map.bulk_stride / row, rows);
}

result check_room(const layout& map, std::span<const transfer> all, unsigned blocks, int rank) {
  std::bitset<2 * 256> seen;
  for (const transfer& t : all) {
    if (t.peer < 0 || t.peer >= static_cast<int>(map.ranks))
      return error(xylInternalError, "a launch of a transfer with rank %d of %u", t.peer, map.ranks);
    if (t.blocks == 0 || unsigned{t.first_block} + t.blocks > blocks)
      return error(xylInternalError, "a launch of %u blocks with a transfer on blocks %u to %u", blocks,
                   t.first_block, t.first_block + t.blocks - 1u);
    if (t.peer == rank) continue;  // straight to its place
    const std::size_t way = 2 * static_cast<std::size_t>(t.peer) + t.sends;
    if (way < seen.size()) {
      if (seen[way])
        return error(xylInternalError, "a launch of two transfers %s rank %d", t.sends ? "to" : "from", t.peer);
      seen.set(way);
    }
    if (!t.is_long())
      XYL_TRY(compare("a message through the ring of a pair", t.blocks, map.pair_blocks, "blocks"));
    else if (t.slot_bytes % 128 != 0)
      return error(xylInternalError, "a launch of a message in chunks of %u bytes, which are not whole lines",
                   t.slot_bytes);
    else
      XYL_TRY(compare("a long message", t.slot_bytes / 16, map.long_slot_room(t.blocks) / 16, units));
  }
  return {};
}

result check_room(const layout& map, const swapped& both, int rank) {
  if (!both.out.is_long() || !both.in.is_long() || both.out.peer == rank || both.in.peer == rank)
    return error(xylInternalError, "a launch that swaps messages which are not long ones of two ranks");
  const transfer ways[] = {both.out, both.in};
  return check_room(map, ways, both.out.blocks, rank);
}

result check_scratch(const layout& map, int pieces, std::uint64_t elements, unsigned element_bytes) {
  const auto room = map.scratch_bytes() / element_bytes / static_cast<unsigned>(pieces < 1 ? 1 : pieces);
  return compare("a scaling of input", elements, room, "elements of each piece");
}

}  // namespace xyl
