// SPDX-License-Identifier: BSD-3-Clause
#include "comm/fused_shape.hpp"

#include <algorithm>

#include "kernels/fused_limits.hpp"
#include "proto/fused_slices.hpp"
#include "proto/fused_two_shot_packet.hpp"

namespace xyl {

namespace {

// Pieces that make one more block of a row worth while, where there are blocks to spare: few peers have little to
// send, and a block more costs its part in the meeting of the team.
constexpr unsigned packet_pieces_of_block(int ranks) { return ranks <= 2 ? 256 : 128; }
constexpr unsigned bulk_pieces_of_block = 128;

std::uint64_t rows_held(fused_form form, unsigned element_bytes, const layout& map, const fused_work& w) {
  const std::uint64_t row = std::uint64_t{w.hidden} * element_bytes;
  const std::uint64_t row_of_packets = std::uint64_t{w.row_line_stride} * 8;
  if (form == fused_form::packet) return map.packet_capacity() / row_of_packets;
  if (form == fused_form::two_shot_packet)
    return map.packet_capacity() / (row_of_packets * (1 + two_shot_packets::rows_sent(w)));
  if (form == fused_form::two_shot_slices)
    return map.bulk_stride /
           two_shot_slices::places(static_cast<unsigned>(row / 16), static_cast<int>(map.ranks)).of_row();
  if (form == fused_form::one_shot_pull) return UINT64_MAX;
  return map.bulk_stride / (form == fused_form::two_shot ? row + w.wire_row_bytes(element_bytes) : row);
}

}  // namespace

fused_shape shape_fused(fused_form form, unsigned element_bytes, int ranks, const fused_limits& limits,
                        const layout& map, fused_work& w) {
  fused_shape shape;
  shape.form = form;
  const unsigned piece = (uses_packets(form) ? 8 : 16) / element_bytes, pieces = w.hidden / piece;
  // A group of lanes that share a scale lies in one warp.
  if (scale_width(w.pattern) > 32 * piece) return shape;
  if (!has_fused_kernels(form, element_bytes)) return shape;
  const int fixed = ranks_of_fused_kernel(form, ranks, element_bytes, w);
  if (!has_fused_kernel_for_any(form) && fixed == 0) return shape;
  const unsigned most_lanes = most_fused_lanes(form, fixed);
  const unsigned held = most_lanes * static_cast<unsigned>(fused_pieces_of_lane(form));
  // Clusters do not fill a device; rows of one block each do without.
  const unsigned all_blocks = limits.blocks[static_cast<int>(form)];
  const bool clusters = teams_meet(form, w) && limits.has_clusters();
  const unsigned of_teams = clusters ? limits.clustered[static_cast<int>(form)] : all_blocks;
  const unsigned least = (pieces + held - 1) / held;
  if (form == fused_form::two_shot_slices && least > 1) return shape;
  if (least > most_blocks_of_row || least > (least > 1 ? of_teams : all_blocks)) return shape;

  // In two shots of packets all teams share in the rows that come and go.
  const unsigned teams_of_row = form == fused_form::two_shot_packet ? static_cast<unsigned>(ranks - 1) : 1;
  const std::uint64_t teams_wanted = (uses_shares(form) ? w.share : w.tokens) * teams_of_row;
  const unsigned of_block = uses_packets(form) ? packet_pieces_of_block(ranks) : bulk_pieces_of_block;
  const std::uint64_t to_spare = teams_wanted == 0 ? 1 : of_teams / teams_wanted;
  const std::uint64_t useful = std::min<std::uint64_t>((pieces + of_block - 1) / of_block, most_blocks_of_row);
  const auto split = form == fused_form::two_shot_slices
                         ? 1u
                         : static_cast<unsigned>(std::max<std::uint64_t>(least, std::min(to_spare, useful)));
  w.spread(piece, split);
  w.is_clustered = w.split > 1 && clusters;
  const unsigned most_blocks = w.is_clustered ? of_teams : all_blocks;

  shape.rows = std::min<std::uint64_t>(rows_held(form, element_bytes, map, w), 1u << 20);
  if (w.split > 1 && teams_meet(form, w) && !w.is_clustered) {
    // A launch has so many team lines; in the second shot all shares' rows use them.
    const unsigned rows = layout::team_rows / (uses_shares(form) ? static_cast<unsigned>(ranks) : 1);
    shape.rows = std::min<std::uint64_t>(shape.rows, rows);
  }
  if (shape.rows == 0) return shape;
  const std::uint64_t teams =
      std::clamp<std::uint64_t>(std::min(teams_wanted, shape.rows * teams_of_row), 1, most_blocks / w.split);
  shape.blocks = static_cast<unsigned>(teams) * w.split;
  // A warp more, where there is room, sees to the headers while the others see to data. Packets between two ranks
  // bring them along.
  const unsigned warp_for_headers = uses_packets(form) && fixed == 2 ? 0 : 32;
  shape.lanes = std::min(std::min(w.pieces_of_block, (pieces + 31) / 32 * 32) + warp_for_headers, most_lanes);
  return shape;
}

fused_shape shape_fused_or_next(fused_form wish, unsigned element_bytes, int ranks, const fused_limits& limits,
                                const layout& map, fused_work& w) {
  if (pulls(wish)) {
    const fused_shape shape = shape_fused(wish, element_bytes, ranks, limits, map, w);
    if (shape.blocks != 0) return shape;
    wish = fused_form::one_shot;
  }
  for (int form = static_cast<int>(wish); form <= static_cast<int>(fused_form::two_shot); ++form) {
    // One rank has no peer to share rows with.
    if (takes_two_shots(static_cast<fused_form>(form)) && ranks == 1) continue;
    const fused_shape shape = shape_fused(static_cast<fused_form>(form), element_bytes, ranks, limits, map, w);
    if (shape.blocks != 0) return shape;
  }
  return {};
}

}  // namespace xyl
