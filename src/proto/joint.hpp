// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives of ranks that share everything: where one process drives all ranks of a communicator on one device,
// one launch does the work of all of them. It reads and writes everybody's buffers, so there are no workspaces, no
// flags and nobody to wait for: such a launch may have any number of blocks, and nothing can be in its way. A lane
// reads all that it needs of a place before it writes there; no other lane reads or writes it. Results are those of
// the forms in rank order, to the bit.
#pragma once

#include "proto/bulk.hpp"
#include "proto/movement.hpp"

namespace xyl {

// Bytes from one buffer to another; or, with a second pair, to and from places that may be each other's, as two
// ranks' pieces are in an alltoall in place.
struct joint_piece {
  const std::byte* from[2] = {};
  std::byte* to[2] = {};
  std::uint64_t bytes = 0;
};

// A reduction of all ranks' buffers.
template <int Capacity>
struct joint_reduction {
  const std::byte* input[Capacity] = {};
  std::byte* output[Capacity] = {};   // null: this rank gets nothing
  const std::byte* addend = nullptr;  // not null: added in fp32 before the one rounding; a sum of such a type
  std::uint64_t input_stride = 0;     // reduce-scatter: bytes from the block for one rank to the next rank's
  std::uint64_t count = 0;            // elements, of a block where there are some
  std::int32_t ranks = 0;
  bool scatters = false;  // a block for each rank
  bool inputs_aligned = false, outputs_aligned = false;

  XYL_FN unsigned blocks_of_result() const { return scatters ? static_cast<unsigned>(ranks) : 1; }
};

// This block's part of a piece.
template <class S>
XYL_FN void move_jointly(S& s, const joint_piece& p) {
  const range part = part_of_block(s, units_of(p.bytes, 16));
  const unsigned grain =
      grain_of(p.from[0], reinterpret_cast<std::uintptr_t>(p.from[1]) | reinterpret_cast<std::uintptr_t>(p.to[0]) |
                              reinterpret_cast<std::uintptr_t>(p.to[1]));
  if (p.to[1] == nullptr) return copy_piece(s, p.to[0], p.from[0], p.bytes, grain, part);
  for (std::uint64_t u = part.begin + s.lane(); u < part.end; u += s.lanes()) {
    const std::uint64_t at = u * 16, left = p.bytes - at;
    const auto first = load_grained<unit16>(p.from[0] + at, left, grain);
    const auto second = load_grained<unit16>(p.from[1] + at, left, grain);
    store_grained(p.to[0] + at, left, grain, first);
    store_grained(p.to[1] + at, left, grain, second);
  }
}

// This block's part of the result; `block`: of which rank, where each gets its own.
template <class S, class Call, class R>
XYL_FN void reduce_jointly(S& s, const Call& c, const R& red, unsigned block) {
  using T = typename R::element;
  const range mine = part_of_block(s, units_of(c.count, per_unit(red)));
  const std::uint64_t begin = c.input_stride * block;
  for (std::uint64_t u = mine.begin + s.lane(); u < mine.end; u += s.lanes()) {
    const std::uint64_t element = u * per_unit(red);
    typename R::accumulator acc[2][R::accumulators] = {};
    for (int first = 0; first < c.ranks; first += bulk_batch) {
      unit16 data[bulk_batch] = {};
#pragma unroll
      for (int i = 0; i < bulk_batch; ++i)
        if (first + i < c.ranks)
          data[i] = load_user<T, unit16>(c.input[first + i] + begin, element, c.count, c.inputs_aligned);
#pragma unroll
      for (int i = 0; i < bulk_batch; ++i)
        if (first + i < c.ranks) combine_unit(red, first + i == 0, data[i], acc);
    }
    std::uint64_t words[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int k = 0; k < R::accumulators; ++k) acc[h][k] = red.finish(acc[h][k]);
      if constexpr (std::is_same_v<typename R::accumulator, float>)
        if (c.addend != nullptr)
          add_word(red, load_addend<R>(c, element + static_cast<unsigned>(h) * R::per_word), acc[h]);
      words[h] = red.encode(acc[h]);
    }
    unit16 result;
    memcpy(&result, words, sizeof result);
    const int from = c.scatters ? static_cast<int>(block) : 0, to = c.scatters ? from + 1 : c.ranks;
    for (int p = from; p < to; ++p)
      if (c.output[p] != nullptr) store_user<T>(c.output[p], element, c.count, c.outputs_aligned, result);
  }
}

}  // namespace xyl
