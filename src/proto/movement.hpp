// SPDX-License-Identifier: BSD-3-Clause
//
// What a collective that only moves data does with its buffers, in bytes, and the copies that it is made of. The
// piece that rank p has for rank q comes from p's input + q * input_stride and goes to q's output + p *
// output_stride. Five collectives are five settings:
//
//   allgather   everyone to everyone, input_stride 0      broadcast  the root to everyone, both strides 0
//   alltoall    everyone to everyone, both strides        scatter    the root to everyone, output_stride 0
//   gather      everyone to the root, input_stride 0
//
// A chunk of a longer message is the same with a part of each piece. Staged data is padded to whole units of 16
// bytes; a space of one lane that brings copy() uses that.
#pragma once

#include "proto/grain.hpp"
#include "proto/header.hpp"
#include "proto/partition.hpp"

namespace xyl {

struct movement {
  static constexpr std::int32_t everyone = -1;

  std::uint64_t bytes = 0;  // of a piece
  std::uint64_t input_stride = 0;
  std::uint64_t output_stride = 0;
  std::int32_t from = everyone;  // or the one rank that has pieces for others
  std::int32_t to = everyone;    // or the one rank that gets pieces

  XYL_FN constexpr bool sends(int p) const { return from == everyone || from == p; }
  XYL_FN constexpr bool receives(int p) const { return to == everyone || to == p; }
  XYL_FN constexpr bool goes(int p, int q) const { return sends(p) && receives(q); }
};

template <class S>
concept copying_space = is_single_lane<S> && requires(S& s, std::byte* to, const std::byte* from, std::uint64_t n) {
  s.copy(to, from, n);
};

// Units that a lane loads before it stores the first: what keeps enough loads in flight.
inline constexpr int move_unroll = 4;

// The bytes of a piece that `units` of it cover.
XYL_FN constexpr std::uint64_t bytes_of(range units, std::uint64_t piece_bytes) {
  const std::uint64_t begin = units.begin * 16, end = units.end * 16 < piece_bytes ? units.end * 16 : piece_bytes;
  return begin < end ? end - begin : 0;
}

// The rank that comes k after this one.
template <class Call>
XYL_FN int rank_after(const Call& c, int k) {
  return c.rank + k < c.ranks ? c.rank + k : c.rank + k - c.ranks;
}

// What the loops below count in: units of a range, from 0. A launch's part is far below 32 GB.
struct lane_walk {
  std::uint32_t lanes, whole, all;  // whole: those whose 16 bytes all belong to the piece, one word each

  template <class S>
  XYL_FN lane_walk(const S& s, range units, std::uint64_t bytes, unsigned grain) : lanes(s.lanes()) {
    const std::uint64_t whole_units = grain == 16 ? bytes / 16 : 0;
    all = units.end > units.begin ? static_cast<std::uint32_t>(units.end - units.begin) : 0;
    whole = whole_units < units.begin         ? 0
            : whole_units - units.begin < all ? static_cast<std::uint32_t>(whole_units - units.begin)
                                              : all;
  }
};

// What does not fill a lane's batch: its loads are on their way together too. Whole units u, u + lanes ... of which
// fewer than a batch are below `end`.
template <bool FromPeer = false, class S>
XYL_FN void load_rest(S& s, const unit16* from, std::uint32_t u, const lane_walk& w, unit16 (&data)[move_unroll]) {
#pragma unroll
  for (int i = 0; i < move_unroll - 1; ++i) {
    if (u + i * w.lanes >= w.whole) continue;
    if constexpr (FromPeer)
      data[i] = s.load_peer16(from + (u + i * w.lanes));
    else
      data[i] = s.load16(from + (u + i * w.lanes));
  }
}
template <class S>
XYL_FN void store_rest(S& s, unit16* to, std::uint32_t u, const lane_walk& w, const unit16 (&data)[move_unroll]) {
#pragma unroll
  for (int i = 0; i < move_unroll - 1; ++i)
    if (u + i * w.lanes < w.whole) s.store16(to + (u + i * w.lanes), data[i]);
}
// The first that is not below w.whole.
XYL_FN std::uint32_t past_rest(std::uint32_t u, const lane_walk& w) {
#pragma unroll
  for (int i = 0; i < move_unroll - 1; ++i)
    if (u < w.whole) u += w.lanes;
  return u;
}

// Copies units of a piece of user memory to workspace offset `to` of ranks rank + first_step .. rank + last_step
// (mod ranks; step 0 is this rank). All ranks start with a different peer, so that no memory is everybody's target
// at once.
template <class S, class Call>
XYL_FN void push_piece(S& s, const Call& c, const std::byte* piece, std::uint64_t bytes, unsigned grain,
                       range units, std::uint64_t to, int first_step, int last_step) {
  if constexpr (copying_space<S>) {
    for (int k = first_step; k <= last_step; ++k)
      stage(s, c.workspace[rank_after(c, k)] + to, piece + units.begin * 16, bytes_of(units, bytes));
  } else {
    const lane_walk w(s, units, bytes, grain);
    const std::byte* const from = piece + units.begin * 16;
    std::uint32_t u = s.lane();
    for (; u + (move_unroll - 1) * w.lanes < w.whole; u += move_unroll * w.lanes) {
      unit16 data[move_unroll];
#pragma unroll
      for (int i = 0; i < move_unroll; ++i)
        data[i] = s.load16(reinterpret_cast<const unit16*>(from) + (u + i * w.lanes));
      for (int k = first_step; k <= last_step; ++k) {
        unit16* const staged = at<unit16>(c, rank_after(c, k), to);
#pragma unroll
        for (int i = 0; i < move_unroll; ++i) s.store16(staged + (u + i * w.lanes), data[i]);
      }
    }
    if (u < w.whole) {
      unit16 data[move_unroll];
      load_rest(s, reinterpret_cast<const unit16*>(from), u, w, data);
      for (int k = first_step; k <= last_step; ++k) store_rest(s, at<unit16>(c, rank_after(c, k), to), u, w, data);
      u = past_rest(u, w);
    }
    for (; u < w.all; u += w.lanes) {
      const std::uint64_t at_byte = (units.begin + u) * 16;
      const auto data = load_grained<unit16>(piece + at_byte, bytes - at_byte, grain);
      for (int k = first_step; k <= last_step; ++k) s.store16(at<unit16>(c, rank_after(c, k), to) + u, data);
    }
  }
}

// Copies units of a piece that lies at workspace offset `from` of rank `owner` to user memory, and, where
// forward(k) says so, to workspace offset `to` of rank + k. BatchesRest: false where registers are short.
template <bool BatchesRest = true, class S, class Call, class Forward>
XYL_FN void deliver_and_forward(S& s, const Call& c, std::byte* piece, std::uint64_t bytes, unsigned grain,
                                range units, std::uint64_t from, int owner, std::uint64_t to, Forward forward) {
  if constexpr (copying_space<S>) {
    const std::byte* const staged = c.workspace[owner] + from;
    for (int k = 1; k < c.ranks; ++k)
      if (forward(k)) stage(s, c.workspace[rank_after(c, k)] + to, staged, bytes_of(units, bytes));
    s.copy(piece + units.begin * 16, staged, bytes_of(units, bytes));
  } else {
    const lane_walk w(s, units, bytes, grain);
    const unit16* const staged = at<const unit16>(c, owner, from);
    std::byte* const there = piece + units.begin * 16;
    std::uint32_t u = s.lane();
    for (; u + (move_unroll - 1) * w.lanes < w.whole; u += move_unroll * w.lanes) {
      unit16 data[move_unroll];
#pragma unroll
      for (int i = 0; i < move_unroll; ++i) data[i] = s.load_peer16(staged + (u + i * w.lanes));
      for (int k = 1; k < c.ranks; ++k)
        if (forward(k))
#pragma unroll
          for (int i = 0; i < move_unroll; ++i)
            s.store16(at<unit16>(c, rank_after(c, k), to) + (u + i * w.lanes), data[i]);
#pragma unroll
      for (int i = 0; i < move_unroll; ++i)
        s.store16(reinterpret_cast<unit16*>(there) + (u + i * w.lanes), data[i]);
    }
    if (BatchesRest && u < w.whole) {
      unit16 data[move_unroll];
      load_rest<true>(s, staged, u, w, data);
      for (int k = 1; k < c.ranks; ++k)
        if (forward(k)) store_rest(s, at<unit16>(c, rank_after(c, k), to), u, w, data);
      store_rest(s, reinterpret_cast<unit16*>(there), u, w, data);
      u = past_rest(u, w);
    }
    for (; u < w.all; u += w.lanes) {
      const unit16 data = s.load_peer16(staged + u);
      for (int k = 1; k < c.ranks; ++k)
        if (forward(k)) s.store16(at<unit16>(c, rank_after(c, k), to) + u, data);
      const std::uint64_t at_byte = (units.begin + u) * 16;
      store_grained(piece + at_byte, bytes - at_byte, grain, data);
    }
  }
}

template <bool BatchesRest = true, class S, class Call>
XYL_FN void deliver_piece(S& s, const Call& c, std::byte* piece, std::uint64_t bytes, unsigned grain, range units,
                          std::uint64_t from, int owner) {
  deliver_and_forward<BatchesRest>(s, c, piece, bytes, grain, units, from, owner, 0, [](int) { return false; });
}

// Copies units of a piece inside this rank's own memory; nothing to do in place.
template <class S>
XYL_FN void copy_piece(S& s, std::byte* to, const std::byte* from, std::uint64_t bytes, unsigned grain,
                       range units) {
  if (to == from) return;
  if constexpr (copying_space<S>) {
    s.copy(to + units.begin * 16, from + units.begin * 16, bytes_of(units, bytes));
  } else {
    const lane_walk w(s, units, bytes, grain);
    const std::byte* const here = from + units.begin * 16;
    std::byte* const there = to + units.begin * 16;
    std::uint32_t u = s.lane();
    for (; u + (move_unroll - 1) * w.lanes < w.whole; u += move_unroll * w.lanes) {
      unit16 data[move_unroll];
#pragma unroll
      for (int i = 0; i < move_unroll; ++i)
        data[i] = s.load16(reinterpret_cast<const unit16*>(here) + (u + i * w.lanes));
#pragma unroll
      for (int i = 0; i < move_unroll; ++i)
        s.store16(reinterpret_cast<unit16*>(there) + (u + i * w.lanes), data[i]);
    }
    if (u < w.whole) {
      unit16 data[move_unroll];
      load_rest(s, reinterpret_cast<const unit16*>(here), u, w, data);
      store_rest(s, reinterpret_cast<unit16*>(there), u, w, data);
      u = past_rest(u, w);
    }
    for (; u < w.all; u += w.lanes) {
      const std::uint64_t at_byte = (units.begin + u) * 16;
      store_grained(to + at_byte, bytes - at_byte, grain,
                    load_grained<unit16>(from + at_byte, bytes - at_byte, grain));
    }
  }
}

}  // namespace xyl
