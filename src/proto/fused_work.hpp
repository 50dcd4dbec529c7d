// SPDX-License-Identifier: BSD-3-Clause
//
// What a rank hands to the fused protocols beside the call: buffers, shape, and how rows are spread over blocks. A
// plain struct, passed by value to kernels. All of it but the pointers is equal on all ranks.
//
//   row     `hidden` neighbouring elements: one token.
//   piece   the 2, 4 or 8 neighbouring elements that a lane holds: what a packet carries, or 16 bytes.
//   group   32 pieces, the first a multiple of 32: what a warp holds.
//   team    `split` neighbouring blocks that share a row; each has a part of it, whole groups.
//   share   the rows of one rank, its owner: ceil(tokens / ranks) neighbouring ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function.hpp"
#include "proto/epilogue.hpp"

namespace xyl {

// Numbers are those of xylFusedPattern_t.
enum class fused_pattern : std::uint8_t {
  all_reduce,
  norm,
  fp8_static,
  fp8_per_token,
  fp8_per_group,
  nvfp4_linear,
  nvfp4_swizzled
};

XYL_FN constexpr bool quantises(fused_pattern p) { return p >= fused_pattern::fp8_static; }
XYL_FN constexpr bool is_nvfp4(fused_pattern p) { return p >= fused_pattern::nvfp4_linear; }
// Elements that share a scale; 0: the whole row.
XYL_FN constexpr unsigned scale_width(fused_pattern p) {
  return is_nvfp4(p) ? 16 : p == fused_pattern::fp8_per_group ? 128 : 0;
}

// See fused.hpp, fused_two_shot_packet.hpp and fused_slices.hpp, in the order in which a form that cannot do a call
// hands it on; and fused_pull.hpp, whose inputs are registered.
enum class fused_form : std::uint8_t {
  packet,
  two_shot_packet,
  one_shot,
  two_shot_slices,
  two_shot,
  one_shot_pull,
  two_shot_pull
};
// Hosts alone have the last: on devices rows that are pushed were faster wherever it was measured, and so were two
// steps of which the first pulls.
inline constexpr std::size_t device_fused_forms = 6;

// What the forms have in common: pieces travel as packets; each rank finishes a share of the rows.
XYL_FN constexpr bool uses_packets(fused_form f) { return f <= fused_form::two_shot_packet; }
XYL_FN constexpr bool uses_shares(fused_form f) {
  return f == fused_form::two_shot_packet || f == fused_form::two_shot || f == fused_form::two_shot_pull;
}
XYL_FN constexpr bool takes_two_shots(fused_form f) { return uses_shares(f) || f == fused_form::two_shot_slices; }
XYL_FN constexpr bool pulls(fused_form f) { return f >= fused_form::one_shot_pull; }

// What an owner sends in the two-shot forms of bulk data. The peers work out the rest, which costs them less than
// bytes would.
enum class fused_wire : std::uint8_t { residual, norm, quantised };

struct fused_work {
  static constexpr std::uint32_t inverse_unit = 1 << 16;

  const std::byte* input = nullptr;  // null: zeros (mixture of experts only)
  const std::byte* residual = nullptr;
  const std::byte* weight = nullptr;
  const float* scale = nullptr;
  std::byte* output = nullptr;  // sum or norm
  std::byte* residual_out = nullptr;
  std::byte* quantised = nullptr;
  std::byte* scales = nullptr;

  // Mixture of experts; experts is 0 without.
  const std::byte* expert_output = nullptr;
  const std::int32_t* expert_row = nullptr;  // null: row k * tokens + t
  const float* expert_weight = nullptr;
  std::uint32_t experts = 0;
  std::uint32_t expert_rows = 0;

  std::uint64_t tokens = 0;
  std::uint64_t share = 0;  // rows of a share
  std::uint64_t first = 0;  // one-shot: this launch's first row; two-shot: its first row of each share
  std::uint32_t rows = 0;   // one-shot: this launch's rows; two-shot: of each share
  std::uint32_t hidden = 0;
  float inverse_hidden = 0;
  float eps = 0;
  std::uint32_t pieces_of_block = 0;              // a multiple of 32, or all of the row
  std::uint32_t row_line_stride = 0;              // lines of a row of packets
  std::uint32_t inverse_of_split = inverse_unit;  // see team_of()
  std::uint16_t split = 1;                        // blocks of a team
  fused_pattern pattern = fused_pattern::all_reduce;
  fused_wire wire = fused_wire::residual;
  bool weight_is_float = false;
  bool gemma = false;
  bool residual_sharded = false;
  bool is_clustered = false;  // a team is a cluster of blocks; else it meets in the workspace's team lines

  // Spreads a row of pieces of so many elements over at most `blocks` blocks, none of them without pieces.
  constexpr void spread(unsigned elements_of_piece, unsigned blocks) {
    const unsigned pieces = hidden / elements_of_piece, groups = (pieces + 31) / 32;
    const unsigned groups_of_block = (groups + blocks - 1) / blocks;
    split = static_cast<std::uint16_t>((groups + groups_of_block - 1) / groups_of_block);
    inverse_of_split = (inverse_unit + split - 1) / split;
    pieces_of_block = groups_of_block * 32;
    row_line_stride = (pieces + 7) / 8 * 8;
  }
  // block / split, of which the division would be what a short launch waits for first: exact as long as
  // block * (split - 1) is less than the unit.
  XYL_FN constexpr unsigned team_of(unsigned block) const { return block * inverse_of_split / inverse_unit; }
  // What an owner sends: the fewest bytes from which the peers have everything.
  constexpr void choose_wire() {
    if (pattern == fused_pattern::all_reduce || (residual_out && !residual_sharded))
      wire = fused_wire::residual;
    else
      wire = output || !quantises(pattern) ? fused_wire::norm : fused_wire::quantised;
  }

  XYL_FN constexpr std::uint64_t scales_of_row() const {
    const unsigned width = scale_width(pattern);
    return width ? hidden / width : 1;
  }
  XYL_FN constexpr std::uint64_t quantised_bytes_of_row() const { return is_nvfp4(pattern) ? hidden / 2 : hidden; }
  XYL_FN constexpr std::uint64_t scale_bytes() const { return is_nvfp4(pattern) ? 1 : 4; }
  XYL_FN constexpr bool has_scales() const { return quantises(pattern) && pattern != fused_pattern::fp8_static; }
  // Bytes of a row between ranks in the second shot: whole units.
  XYL_FN constexpr std::uint64_t wire_row_bytes(unsigned element_bytes) const {
    if (wire != fused_wire::quantised) return std::uint64_t{hidden} * element_bytes;
    const std::uint64_t bytes = quantised_bytes_of_row() + (has_scales() ? scales_of_row() * scale_bytes() : 0);
    return (bytes + 15) / 16 * 16;
  }
};

// Whether the blocks of a team have values to tell each other. In slices each row is one block's.
XYL_FN constexpr bool teams_meet(fused_form f, const fused_work& w) {
  return f != fused_form::two_shot_slices && w.pattern != fused_pattern::all_reduce;
}

}  // namespace xyl
