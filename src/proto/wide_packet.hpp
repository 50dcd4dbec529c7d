// SPDX-License-Identifier: BSD-3-Clause
//
// One-shot allreduce with lines of 128 bytes ("LL128"): as with packets, every rank puts its whole message into
// every peer's memory and reduces what arrives there in rank order; but data and epoch share 128 bytes instead of
// 8, so that only a fifteenth more than the message is sent. One trip, no flag and no order between stores.
// Relies on a line being seen whole, which no memory model says: only where the link does (see sync_path.hpp).
//
// A few lanes of a block hold a pack of two lines together, 15 units of 16 bytes. Relies on, besides space.hpp:
//
//   pack_lanes                    how many they are; lane m of them holds units m, m + pack_lanes, ...
//   put_packs<N>(to, units, e)    stores the pack to N places (null: none) with e
//   get_packs<N>(from, e, units, w)   waits until N packs (null: skipped) carry e, all loads issued before any is
//                                 tested; the verdict is that of all lanes that hold them
//   get_packs_and_headers<N>(from, e, units, w, header, source, fingerprint)   where a space has it: 32 lanes each
//                                 await the header of a rank too (null: none), and have one verdict
//
// All lanes of a block come to these calls together.
#pragma once

#include "proto/header.hpp"
#include "proto/packet.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Units of a pack that a lane holds.
template <class S>
inline constexpr unsigned units_held = (wide_pack::units + S::pack_lanes - 1) / S::pack_lanes;

// Packs that a lane has on the way at once, for so many ranks, where there are enough of them.
XYL_FN constexpr int wide_batch(int ranks) { return ranks == 2 ? 2 : 1; }

template <class S>
using held_units = unit16[units_held<S>];

// Where a lane stands, and what there is to do: packs of this block, units of the message.
template <class S>
struct pack_place {
  unsigned groups, group, member;
  std::uint32_t begin, end;  // a workspace has room for fewer than can be said in 32 bits
  std::uint32_t units;

  XYL_FN std::uint32_t pack(std::uint32_t first, int j) const {
    return first + static_cast<unsigned>(j) * groups + group;
  }
  XYL_FN bool has(std::uint32_t pack) const { return pack < end; }
  // The i-th unit that this lane holds of a pack, of the message; has_unit() says whether there is one.
  XYL_FN std::uint32_t unit(std::uint32_t pack, unsigned i) const {
    return pack * wide_pack::units + member + i * S::pack_lanes;
  }
  XYL_FN bool has_unit(std::uint32_t pack, unsigned i) const {
    return member + i * S::pack_lanes < wide_pack::units && unit(pack, i) < units && has(pack);
  }
};

template <class S, class Call, class R>
XYL_FN pack_place<S> place_in_packs(const S& s, const Call& c, const R&) {
  const std::uint64_t units = units_of(c.count, 2 * R::per_word);
  const range mine = part_of_block(s, units_of(units, wide_pack::units));
  return {s.lanes() / S::pack_lanes,
          s.lane() / S::pack_lanes,
          s.lane() % S::pack_lanes,
          static_cast<std::uint32_t>(mine.begin),
          static_cast<std::uint32_t>(mine.end),
          static_cast<std::uint32_t>(units)};
}

XYL_FN std::uint64_t half_of(const unit16& u, int half) {
  return u.word[2 * half] | static_cast<std::uint64_t>(u.word[2 * half + 1]) << 32;
}
XYL_FN void set_half(unit16& u, int half, std::uint64_t word) {
  u.word[2 * half] = static_cast<std::uint32_t>(word);
  u.word[2 * half + 1] = static_cast<std::uint32_t>(word >> 32);
}

// This rank's own part of Batch packs; what does not exist is zero.
template <bool Whole, int Batch, class S, class Call, class R>
XYL_FN void load_packs(const Call& c, const R&, const pack_place<S>& at_packs, std::uint32_t first,
                       held_units<S> (&own)[Batch]) {
  const bool aligned = is_aligned(c.input, 16);
#pragma unroll
  for (int j = 0; j < Batch; ++j)
#pragma unroll
    for (unsigned i = 0; i < units_held<S>; ++i) {
      const std::uint32_t pack = at_packs.pack(first, j);
      own[j][i] = at_packs.has_unit(pack, i)
                      ? load_user<typename R::element, unit16, Whole>(
                            c.input, at_packs.unit(pack, i) * std::uint64_t{2 * R::per_word}, c.count, aligned)
                      : unit16{};
    }
}

// Puts them into every peer's memory, each rank beginning with another peer.
template <int Batch, class S, class Call, class R>
XYL_FN void send_packs(S& s, const Call& c, const R&, const pack_place<S>& at_packs, std::uint32_t first,
                       const held_units<S> (&own)[Batch]) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  constexpr int together = R::ranks ? R::ranks - 1 : packet_batch;
  const epoch_t e = s.epoch();
#pragma unroll
  for (int j = 0; j < Batch; ++j) {
    const std::uint32_t pack = at_packs.pack(first, j);
    const std::uint64_t to = c.map.wide_offset(c.map.slot(e), static_cast<unsigned>(c.rank), pack);
    for (int k = 1; k < ranks; k += together) {
      wide_pack* packs[together];
#pragma unroll
      for (int i = 0; i < together; ++i) {
        const int p = c.rank + k + i < ranks ? c.rank + k + i : c.rank + k + i - ranks;
        packs[i] = k + i < ranks && at_packs.has(pack) ? at<wide_pack>(c, p, to) : nullptr;
      }
      s.template put_packs<together>(packs, own[j], e);
    }
  }
}

// Whether lanes await the headers beside their first packs, each group of 32 all of them.
template <class S, class Call>
XYL_FN bool packs_bring_headers(const S&, const Call& c) {
  if constexpr (requires { S::packs_bring_headers; })
    return c.ranks <= 32 && !c.map.headers_by_block;
  else
    return false;
}

template <int N, class S, class Call>
XYL_FN bool get_packs(S& s, const Call& c, bool with_headers, const wide_pack* const (&from)[N],
                      held_units<S> (&units)[N], waiting w) {
  const epoch_t e = s.epoch();
  if constexpr (requires { S::packs_bring_headers; })
    if (with_headers) {
      const int source = c.ranks == 2 ? 1 - c.rank : static_cast<int>(s.lane() % 32);
      const line* const header =
          source < c.ranks && source != c.rank
              ? at<const line>(c, c.rank,
                               c.map.header_line(c.map.slot(e), static_cast<unsigned>(source), s.block()))
              : nullptr;
      return s.template get_packs_and_headers<N>(from, e, units, w, header, source, c.fingerprint);
    }
  return s.template get_packs<N>(from, e, units, w);
}

// The packs of N ranks from `peer` on, Batch of each; this rank's own, and what does not exist, stays as it is.
template <int N, int Batch, class S, class Call>
XYL_FN bool get_packs_of(S& s, const Call& c, const pack_place<S>& at_packs, bool with_headers, std::uint32_t first,
                         int peer, int ranks, held_units<S> (&units)[Batch * N]) {
  const wide_pack* from[Batch * N];
#pragma unroll
  for (int j = 0; j < Batch; ++j)
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::uint32_t pack = at_packs.pack(first, j);
      const int p = peer + i;
      from[j * N + i] =
          at_packs.has(pack) && p != c.rank && p < ranks
              ? at<const wide_pack>(c, c.rank,
                                    c.map.wide_offset(c.map.slot(s.epoch()), static_cast<unsigned>(p), pack))
              : nullptr;
    }
  return get_packs<Batch * N>(s, c, with_headers, from, units, waiting{peer, phase::packet, N});
}

// Adds N ranks' units, of which `peer` is the first, to what the ranks before came to.
template <int N, class R>
XYL_FN void add_units(const R& red, const unit16* const (&units)[N], int peer, int ranks,
                      typename R::accumulator (&acc)[2][R::accumulators]) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int i = 0; i < N; ++i) {
      typename R::accumulator value[R::accumulators];
      red.decode(half_of(*units[i], half), value);
      if (peer + i == 0)
#pragma unroll
        for (int k = 0; k < R::accumulators; ++k) acc[half][k] = value[k];
      else if (peer + i < ranks)
        red.accumulate(acc[half], value);
    }
}

template <bool Whole, class S, class Call, class R>
XYL_FN void store_sum(const Call& c, const R& red, std::uint64_t u, bool aligned,
                      typename R::accumulator (&acc)[2][R::accumulators]) {
  unit16 sum;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int k = 0; k < R::accumulators; ++k) acc[half][k] = red.finish(acc[half][k]);
    set_half(sum, half, red.encode(acc[half]));
  }
  store_user<typename R::element, unit16, Whole>(c.output, u * (2 * R::per_word), c.count, aligned, sum);
}

// One batch: waits for what the peers sent, adds and stores it.
template <bool Whole, int Batch, class S, class Call, class R>
XYL_FN bool reduce_packs(S& s, const Call& c, const R& red, const pack_place<S>& at_packs, bool with_headers,
                         std::uint32_t first, const held_units<S> (&own)[Batch]) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const bool aligned = is_aligned(c.output, 16);
  if constexpr (R::ranks == 2) {
    held_units<S> theirs[Batch];
    if (!get_packs_of<1, Batch>(s, c, at_packs, with_headers, first, 1 - c.rank, 2, theirs)) return false;
    received(s);
#pragma unroll
    for (int j = 0; j < Batch; ++j)
#pragma unroll
      for (unsigned i = 0; i < units_held<S>; ++i) {
        const std::uint32_t pack = at_packs.pack(first, j);
        if (!at_packs.has_unit(pack, i)) continue;
        typename R::accumulator acc[2][R::accumulators];
        unit16 in_order[2] = {c.rank == 0 ? own[j][i] : theirs[j][i], c.rank == 0 ? theirs[j][i] : own[j][i]};
        const unit16* const both[2] = {&in_order[0], &in_order[1]};
        add_units<2>(red, both, 0, 2, acc);
        store_sum<Whole, S>(c, red, at_packs.unit(pack, i), aligned, acc);
      }
  } else {
    constexpr int together = R::ranks ? R::ranks : packet_batch;
    typename R::accumulator acc[Batch][units_held<S>][2][R::accumulators] = {};
    for (int p = 0; p < ranks; p += together) {
      held_units<S> units[Batch * together];
#pragma unroll
      for (int n = 0; n < Batch * together; ++n)
#pragma unroll
        for (unsigned i = 0; i < units_held<S>; ++i) units[n][i] = own[n / together][i];
      if (!get_packs_of<together, Batch>(s, c, at_packs, with_headers && p == 0, first, p, ranks, units))
        return false;
#pragma unroll
      for (int j = 0; j < Batch; ++j)
#pragma unroll
        for (unsigned i = 0; i < units_held<S>; ++i) {
          const unit16* of[together];
#pragma unroll
          for (int n = 0; n < together; ++n) of[n] = &units[j * together + n][i];
          add_units<together>(red, of, p, ranks, acc[j][i]);
        }
    }
    received(s);
#pragma unroll
    for (int j = 0; j < Batch; ++j)
#pragma unroll
      for (unsigned i = 0; i < units_held<S>; ++i) {
        const std::uint32_t pack = at_packs.pack(first, j);
        if (at_packs.has_unit(pack, i)) store_sum<Whole, S>(c, red, at_packs.unit(pack, i), aligned, acc[j][i]);
      }
  }
  return true;
}

template <bool Whole, int Batch, class S, class Call, class R>
XYL_FN bool wide_allreduce_block(S& s, const Call& c, const R& red, const pack_place<S>& at_packs) {
  const std::uint32_t step = at_packs.groups * Batch;
  held_units<S> own[Batch];
  load_packs<Whole, Batch>(c, red, at_packs, at_packs.begin, own);
  put_headers(s, c);
  send_packs<Batch>(s, c, red, at_packs, at_packs.begin, own);
#pragma unroll 1
  for (std::uint32_t first = at_packs.begin + step; first < at_packs.end; first += step) {
    held_units<S> more[Batch];
    load_packs<Whole, Batch>(c, red, at_packs, first, more);
    send_packs<Batch>(s, c, red, at_packs, first, more);
  }
  sent(s);

  // Nothing is stored before it is known that the calls fit together: lanes that vote see all headers, or the
  // block agrees.
  if (!join(s)) return false;
  bool with_headers = packs_bring_headers(s, c);
  if (!with_headers && !s.all(check_headers(s, c))) return false;
  if (!reduce_packs<Whole, Batch>(s, c, red, at_packs, with_headers, at_packs.begin, own)) return false;
#pragma unroll 1
  for (std::uint32_t first = at_packs.begin + step; first < at_packs.end; first += step) {
    load_packs<Whole, Batch>(c, red, at_packs, first, own);
    if (!reduce_packs<Whole, Batch>(s, c, red, at_packs, false, first, own)) return false;
  }
  return true;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool wide_allreduce_of(S& s, const Call& c, const R& red) {
  const pack_place<S> at_packs = place_in_packs(s, c, red);
  // Where each group of lanes has one pack at most, it does not poll for more. What is not whole takes registers.
  if constexpr (Whole && wide_batch(R::ranks) > 1)
    if (at_packs.end - at_packs.begin > at_packs.groups)
      return wide_allreduce_block<Whole, wide_batch(R::ranks)>(s, c, red, at_packs);
  return wide_allreduce_block<Whole, 1>(s, c, red, at_packs);
}

// Returns this lane's verdict, see packet_allreduce().
template <class S, class Call, class R>
XYL_FN bool wide_packet_allreduce(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  bool good = begin_early(s);
  if (good) {
    // As in packet_allreduce().
    if (R::ranks != 0 && is_whole<T, unit16>(c.input, c.count) && is_whole<T, unit16>(c.output, c.count)) [[likely]]
      good = wide_allreduce_of<true>(s, c, red);
    else
      good = wide_allreduce_of<false>(s, c, red);
  }
  s.leave();
  return good;
}

}  // namespace xyl
