// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that only move data, with bulk data and one flag per (source, block): allgather, alltoall,
// gather, scatter and broadcast in one phase, and for long broadcasts one in two, in which the root sends each byte
// once. Every rank puts and awaits headers, also one that has nothing to send or to get: so two slots suffice, and
// calls that differ are found before an output is touched. Relies on bulk data as flagged.hpp does.
#pragma once

#include "proto/flagged.hpp"
#include "proto/movement.hpp"

namespace xyl {

// Where the piece of rank p lies in the workspace that holds it.
template <class S, class Call>
XYL_FN std::uint64_t piece_offset(const S&, const Call& c, epoch_t e, int p, std::uint64_t bytes) {
  const unsigned slot = c.map.slot(e);
  const std::uint64_t region = c.map.bulk_offset(slot, static_cast<unsigned>(p));
  if constexpr (is_single_lane<S>)
    return bytes <= c.map.inline_bytes() ? c.map.inline_offset(slot, static_cast<unsigned>(p))
                                         : region + c.map.place(e, bytes);
  else
    return region;
}

// One phase. Pushed: each piece is written into the workspace of the rank that gets it. Pulled (`pull`, where all
// get the same piece): it is written once, into the sender's own, and everybody reads it there; the flags say when,
// and the slot is used again no sooner than after the readers' next headers.
template <class S, class Call>
XYL_FN bool exchange_block(S& s, const Call& c, const movement& m, bool pull) {
  const std::uint64_t units = units_of(m.bytes, 16);
  const range part = part_of_block(s, units);
  const unsigned in_grain = grain_of(c.input, m.input_stride), out_grain = grain_of(c.output, m.output_stride);
  // What fits beside the header comes with it.
  if constexpr (is_single_lane<S>) pull = pull && m.bytes > hinted_bytes;
  const auto staged = [&](int p) { return piece_offset(s, c, s.epoch(), p, units * 16) + part.begin * 16; };
  const auto pushed = [&](epoch_t e) { return piece_offset(s, c, e, c.rank, units * 16); };

  if constexpr (!is_single_lane<S>) put_headers(s, c);
  if (m.sends(c.rank)) {
    if (pull) {
      push_piece(s, c, c.input, m.bytes, in_grain, part, staged(c.rank), 0, 0);
    } else if (m.input_stride == 0 && m.to == movement::everyone) {
      push_piece(s, c, c.input, m.bytes, in_grain, part, staged(c.rank), 1, c.ranks - 1);
    } else {
      for (int k = 1; k < c.ranks; ++k) {
        const int p = rank_after(c, k);
        if (m.receives(p))
          push_piece(s, c, c.input + m.input_stride * static_cast<unsigned>(p), m.bytes, in_grain, part,
                     staged(c.rank), k, k);
      }
    }
  }
  if (!exchange_first_phase(s, c, flag_family::exchange, phase::exchange, pull ? 0 : units * 16, pushed))
    return false;
  if (!m.receives(c.rank)) return true;
  for (int k = 0; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    if (!m.sends(p)) continue;
    std::byte* const to = c.output + m.output_stride * static_cast<unsigned>(p);
    if (p == c.rank)
      copy_piece(s, to, c.input + m.input_stride * static_cast<unsigned>(p), m.bytes,
                 in_grain < out_grain ? in_grain : out_grain, part);
    else
      deliver_piece(s, c, to, m.bytes, out_grain, part, staged(p), pull ? p : c.rank);
  }
  return true;
}

// Posts this block's flag of a family to those peers for which whom(p) holds. After sync(), as post_all.
template <class S, class Call, class Whom>
XYL_FN void post_some(S& s, const Call& c, flag_family family, Whom whom) {
  s.sync();  // the lane that posts speaks for the stores of all lanes
  const std::uint64_t mine = c.map.flag_offset(family, static_cast<unsigned>(c.rank), s.block());
  for (int p = static_cast<int>(s.lane()); p < c.ranks; p += static_cast<int>(s.lanes()))
    if (p != c.rank && whom(p)) s.post(at<flag>(c, p, mine), s.epoch());
}

// This lane's part of waiting for the same from those peers for which whom(p) holds.
template <class S, class Call, class Whom>
XYL_FN bool await_some(S& s, const Call& c, flag_family family, phase what, Whom whom) {
  bool good = true;
  for (int p = static_cast<int>(s.lane()); p < c.ranks && good; p += static_cast<int>(s.lanes()))
    if (p != c.rank && whom(p))
      good = s.await(at<const flag>(c, c.rank, c.map.flag_offset(family, static_cast<unsigned>(p), s.block())),
                     s.epoch(), waiting{p, what});
  return good;
}

// Broadcast in two phases, for two ranks or more: the root cuts the message into as many shares as there are other
// ranks and sends one to each (spread), which forwards it to the rest (forward). m.from is the root.
template <class S, class Call>
XYL_FN bool spread_broadcast_block(S& s, const Call& c, const movement& m) {
  const int root = m.from;
  const unsigned slot = c.map.slot(s.epoch());
  const std::uint64_t share = part_of(units_of(m.bytes, 16), static_cast<unsigned>(c.ranks - 1), 0).size();
  const range part = part_of_block(s, share);
  const unsigned in_grain = grain_of(c.input, 0), out_grain = grain_of(c.output, 0);
  // Where rank p's share begins, and how long it is; p is not the root.
  const auto first_byte = [&](int p) {
    const int index = p > root ? p - root - 1 : p - root - 1 + c.ranks;
    const std::uint64_t begin = static_cast<unsigned>(index) * share * 16;
    return begin < m.bytes ? begin : m.bytes;
  };
  const auto length = [&](int p) {
    const std::uint64_t left = m.bytes - first_byte(p);
    return left < share * 16 ? left : share * 16;
  };
  // Units of a share that exist.
  const auto part_for = [&](int p) {
    const std::uint64_t units = units_of(length(p), 16);
    return range{part.begin < units ? part.begin : units, part.end < units ? part.end : units};
  };
  const std::uint64_t place = place_of(s, c, share * 16) + part.begin * 16;
  const auto staged = [&](int source) { return c.map.bulk_offset(slot, static_cast<unsigned>(source)) + place; };
  const auto is_root = [&](int p) { return p == root; };
  const auto is_other = [&](int p) { return p != root; };

  put_headers(s, c);
  if (c.rank == root) {
    for (int k = 1; k < c.ranks; ++k) {
      const int p = rank_after(c, k);
      push_piece(s, c, c.input + first_byte(p), length(p), in_grain, part_for(p), staged(root), k, k);
    }
    post_some(s, c, flag_family::spread, is_other);
    if (!s.all(check_headers(s, c))) return false;
    const range all = part_of(units_of(m.bytes, 16), s.blocks(), s.block());
    copy_piece(s, c.output, c.input, m.bytes, in_grain < out_grain ? in_grain : out_grain, all);
    return true;
  }
  if (!s.all(check_headers(s, c) && await_some(s, c, flag_family::spread, phase::spread, is_root))) return false;
  deliver_and_forward(s, c, c.output + first_byte(c.rank), length(c.rank), out_grain, part_for(c.rank),
                      staged(root), c.rank, staged(c.rank), [&](int k) { return rank_after(c, k) != root; });
  post_some(s, c, flag_family::forward, is_other);
  if (!s.all(await_some(s, c, flag_family::forward, phase::forward, is_other))) return false;
  for (int k = 1; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    if (p != root)
      deliver_piece(s, c, c.output + first_byte(p), length(p), out_grain, part_for(p), staged(p), c.rank);
  }
  return true;
}

template <class S, class Call>
XYL_FN bool exchange(S& s, const Call& c, const movement& m, bool pull = false) {
  const bool good = s.begin() && exchange_block(s, c, m, pull);
  s.leave();
  return good;
}

template <class S, class Call>
XYL_FN bool spread_broadcast(S& s, const Call& c, const movement& m) {
  const bool good = s.begin() && spread_broadcast_block(s, c, m);
  s.leave();
  return good;
}

}  // namespace xyl
