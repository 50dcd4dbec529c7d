// SPDX-License-Identifier: BSD-3-Clause
//
// One-shot allreduce with lines of 16 bytes that are seen whole ("LL16"): as with packets, every rank puts its
// whole message into every peer's memory and reduces what arrives there in rank order; but one epoch is enough for
// 12 bytes of data, so that a third more than the message is sent where packets send twice as much. For links that
// are the limit, such as that to host memory. Relies on aligned 16-byte stores and loads being single accesses, see
// sync_path.hpp.
//
// A lane moves bundles: three units of 16 bytes in four lines. Lanes that store at the same time have their bundles
// in one sheet, so that each of a bundle's units, and of its lines, is beside those of the other lanes: an
// instruction of a warp moves 512 bytes that follow each other. All groups of lanes of all blocks take a sheet each
// in turn, so that what is on its way lies together. A lane is one bundle ahead with sending, no more: a link that
// goes both ways is busy in both, and whoever takes bundle n has been sent what the peer sends before it takes
// n - 1. So nobody waits for ever.
//
// Relies on, besides space.hpp:
//
//   sheet_lanes            how many lanes a sheet is for
//   put_line(l, w)         stores the 16 bytes w at once; the last word is the epoch
//   get_lines<N>(l, e, got, w)   waits until N lines (null: skipped) carry e, all loads issued before any is tested
//   get_lines_and_header<N>(l, e, got, w, header, source, fingerprint)   where a space has it: awaits the header of
//                          a rank too (null: none), and refuses one that does not carry the fingerprint
#pragma once

#include "proto/wide_packet.hpp"

namespace xyl {

inline constexpr unsigned bundle_units = 3, bundle_lines = 4;

// Words of units in the order in which lines carry them.
XYL_FN void lines_of(const unit16 (&units)[bundle_units], std::uint32_t epoch, unit16 (&lines)[bundle_lines]) {
#pragma unroll
  for (unsigned i = 0; i < bundle_lines; ++i) {
#pragma unroll
    for (unsigned k = 0; k < 3; ++k) lines[i].word[k] = units[(3 * i + k) / 4].word[(3 * i + k) % 4];
    lines[i].word[3] = epoch;
  }
}
XYL_FN void units_in(const unit16* lines, unit16 (&units)[bundle_units]) {
#pragma unroll
  for (unsigned n = 0; n < 4 * bundle_units; ++n) units[n / 4].word[n % 4] = lines[n / 3].word[n % 3];
}

// Where a lane stands: its bundle of a sheet. A workspace has room for fewer sheets than can be said in 32 bits.
template <class S>
struct sheet_place {
  std::uint32_t first;  // sheet of this lane
  std::uint32_t step;   // to its next one
  std::uint32_t units;  // of the message
  unsigned member;

  XYL_FN std::uint32_t unit(std::uint32_t sheet, unsigned i) const {
    return (sheet * bundle_units + i) * S::sheet_lanes + member;
  }
  XYL_FN bool has_unit(std::uint32_t sheet, unsigned i) const { return unit(sheet, i) < units; }
  // A bundle without its first unit has none, and is not sent.
  XYL_FN bool has(std::uint32_t sheet) const { return has_unit(sheet, 0); }
  XYL_FN std::uint64_t line(std::uint32_t sheet, unsigned i) const {
    return (std::uint64_t{sheet} * bundle_lines + i) * S::sheet_lanes + member;
  }
};

template <class S, class Call, class R>
XYL_FN sheet_place<S> place_in_sheets(const S& s, const Call& c, const R&) {
  const unsigned groups = s.lanes() / S::sheet_lanes;
  return {s.block() * groups + s.lane() / S::sheet_lanes, s.blocks() * groups,
          static_cast<std::uint32_t>(units_of(c.count, 2 * R::per_word)), s.lane() % S::sheet_lanes};
}

// This rank's part of a bundle; what does not exist is zero.
template <class S, class Call, class R>
XYL_FN void load_bundle(const Call& c, const R&, const sheet_place<S>& at_sheets, std::uint32_t sheet,
                        unit16 (&own)[bundle_units]) {
  const bool aligned = is_aligned(c.input, 16);
#pragma unroll
  for (unsigned i = 0; i < bundle_units; ++i)
    own[i] = at_sheets.has_unit(sheet, i)
                 ? load_user<typename R::element, unit16>(
                       c.input, at_sheets.unit(sheet, i) * std::uint64_t{2 * R::per_word}, c.count, aligned)
                 : unit16{};
}

template <class S, class Call, class R>
XYL_FN void send_bundle(S& s, const Call& c, const R&, const sheet_place<S>& at_sheets, std::uint32_t sheet,
                        const unit16 (&own)[bundle_units]) {
  if (!at_sheets.has(sheet)) return;
  const int ranks = R::ranks ? R::ranks : c.ranks;
  unit16 lines[bundle_lines];
  lines_of(own, packet_epoch(s.epoch()), lines);
  const std::uint64_t to = c.map.wide_offset(c.map.slot(s.epoch()), static_cast<unsigned>(c.rank));
  for (int k = 1; k < ranks; ++k) {
    const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
#pragma unroll
    for (unsigned i = 0; i < bundle_lines; ++i)
      s.put_line(at<unit16>(c, p, to) + at_sheets.line(sheet, i), lines[i]);
  }
}

// Whether the last lanes await the headers beside their first bundle.
template <class S, class Call>
XYL_FN bool bundles_bring_headers(const S& s, const Call& c) {
  if constexpr (requires { S::bundles_bring_headers; })
    return can_share_headers(s, c);
  else
    return false;
}

// The bundles of N ranks from `peer` on; this rank's own, and what does not exist, stays as it is.
template <int N, class S, class Call>
XYL_FN bool get_bundles(S& s, const Call& c, const sheet_place<S>& at_sheets, bool with_headers,
                        std::uint32_t sheet, int peer, int ranks, unit16 (&got)[bundle_lines * N]) {
  const epoch_t e = s.epoch();
  const unsigned slot = c.map.slot(e);
  const unit16* lines[bundle_lines * N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int p = peer + n;
    const bool is_there = at_sheets.has(sheet) && p != c.rank && p < ranks;
#pragma unroll
    for (unsigned i = 0; i < bundle_lines; ++i)
      // Line i of each rank in turn: that is how waiting::of_line() counts.
      lines[i * N + n] = is_there ? at<const unit16>(c, c.rank, c.map.wide_offset(slot, static_cast<unsigned>(p))) +
                                        at_sheets.line(sheet, i)
                                  : nullptr;
  }
  const waiting w{peer, phase::packet, N};
  if constexpr (requires { S::bundles_bring_headers; }) {
    const int source = static_cast<int>(s.lanes() - 1 - s.lane());
    const line* const header =
        with_headers && source < c.ranks && source != c.rank
            ? at<const line>(c, c.rank, c.map.header_line(slot, static_cast<unsigned>(source), s.block()))
            : nullptr;
    return s.template get_lines_and_header<bundle_lines * N>(lines, packet_epoch(e), got, w, header, source,
                                                             c.fingerprint);
  } else {
    return s.template get_lines<bundle_lines * N>(lines, packet_epoch(e), got, w);
  }
}

// Waits for a bundle of all peers, and adds them in rank order.
template <class S, class Call, class R>
XYL_FN bool reduce_bundle(S& s, const Call& c, const R& red, const sheet_place<S>& at_sheets, bool with_headers,
                          std::uint32_t sheet, const unit16 (&own)[bundle_units],
                          typename R::accumulator (&acc)[bundle_units][2][R::accumulators]) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  if constexpr (R::ranks == 2) {
    unit16 got[bundle_lines], theirs[bundle_units];
    if (!get_bundles<1>(s, c, at_sheets, with_headers, sheet, 1 - c.rank, 2, got)) return false;
    units_in(got, theirs);
#pragma unroll
    for (unsigned i = 0; i < bundle_units; ++i) {
      const unit16 in_order[2] = {c.rank == 0 ? own[i] : theirs[i], c.rank == 0 ? theirs[i] : own[i]};
      const unit16* const both[2] = {&in_order[0], &in_order[1]};
      add_units<2>(red, both, 0, 2, acc[i]);
    }
  } else {
    constexpr int together = packet_batch;
    for (int p = 0; p < ranks; p += together) {
      unit16 got[bundle_lines * together];
      if (!get_bundles<together>(s, c, at_sheets, with_headers && p == 0, sheet, p, ranks, got)) return false;
#pragma unroll
      for (int n = 0; n < together; ++n) {
        unit16 lines[bundle_lines], theirs[bundle_units];
#pragma unroll
        for (unsigned i = 0; i < bundle_lines; ++i) lines[i] = got[i * together + static_cast<unsigned>(n)];
        units_in(lines, theirs);
#pragma unroll
        for (unsigned i = 0; i < bundle_units; ++i) {
          const unit16 value = p + n == c.rank ? own[i] : theirs[i];
          const unit16* const one[1] = {&value};
          add_units<1>(red, one, p + n, ranks, acc[i]);
        }
      }
    }
  }
  return true;
}

// Each lane in turn sends a bundle and takes the one before. The first comes with the header, and nothing is stored
// before it is known that the calls fit together: the block agrees when it has taken its first bundles, with which
// the last lanes have awaited the headers.
template <class S, class Call, class R>
XYL_FN bool line_allreduce_block(S& s, const Call& c, const R& red) {
  // Here, and not when the headers are put: inside the loop it would be asked for in every round whether it is known.
  read_turn(s);
  const sheet_place<S> at_sheets = place_in_sheets(s, c, red);
  const bool aligned = is_aligned(c.output, 16);
  unit16 own[bundle_units];
  bool with_headers = false, good = true, agreed = false;
  std::uint32_t sheet = at_sheets.first, before = sheet;
  for (bool is_first = true;; is_first = false) {
    unit16 next[bundle_units];
    load_bundle(c, red, at_sheets, sheet, next);
    if (is_first) put_headers(s, c);
    send_bundle(s, c, red, at_sheets, sheet, next);
    if (is_first) {
      sent(s);
      if (!join(s)) return false;
      with_headers = bundles_bring_headers(s, c);
      good = with_headers || check_headers(s, c);
    } else {
      typename R::accumulator acc[bundle_units][2][R::accumulators] = {};
      good = good && reduce_bundle(s, c, red, at_sheets, with_headers, before, own, acc);
      if (!agreed) good = s.all(good);
      if (!good) return false;
      agreed = true;
      with_headers = false;
      received(s);
#pragma unroll
      for (unsigned i = 0; i < bundle_units; ++i)
        if (at_sheets.has_unit(before, i)) store_sum<false, S>(c, red, at_sheets.unit(before, i), aligned, acc[i]);
      if (!at_sheets.has(sheet)) return true;
    }
#pragma unroll
    for (unsigned i = 0; i < bundle_units; ++i) own[i] = next[i];
    before = sheet;
    sheet += at_sheets.step;
  }
}

// Returns this lane's verdict, see packet_allreduce(). Where the link is slow a check of every unit costs nothing:
// buffers that are aligned have no code of their own.
template <class S, class Call, class R>
XYL_FN bool line_packet_allreduce(S& s, const Call& c, const R& red) {
  const bool good = begin_early(s) && line_allreduce_block(s, c, red);
  s.leave();
  return good;
}

}  // namespace xyl
