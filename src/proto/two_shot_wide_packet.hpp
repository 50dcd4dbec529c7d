// SPDX-License-Identifier: BSD-3-Clause
//
// Two-shot allreduce with lines of 128 bytes (wide_packet.hpp): share p of every rank goes to rank p, which reduces
// it in rank order and puts the result into everybody's memory. Two trips and no flag, as with two_shot_packet.hpp,
// at little more than half the bytes.
//
// Shares are whole packs, and short ones are padded: every pack exists. In each region the packs of the scattered
// share come first, those of the gathered one behind them: an owner may be a whole phase ahead of its peers.
#pragma once

#include "proto/wide_packet.hpp"

namespace xyl {

// A message in shares of so many packs; a block's part of them is in at_packs.
template <class S>
struct wide_shares {
  std::uint32_t share;
  pack_place<S> at_packs;

  // The i-th unit that this lane holds of pack x of rank p's share, of the message.
  XYL_FN std::uint32_t unit(int p, std::uint32_t x, unsigned i) const {
    return at_packs.unit(share * static_cast<unsigned>(p) + x, i);
  }
  XYL_FN bool has_unit(int p, std::uint32_t x, unsigned i) const {
    return at_packs.has(x) && at_packs.member + i * S::pack_lanes < wide_pack::units &&
           unit(p, x, i) < at_packs.units;
  }
};

template <class S, class Call, class R>
XYL_FN wide_shares<S> cut_in_packs(const S& s, const Call& c, const R& red, int ranks) {
  wide_shares<S> cut{0, place_in_packs(s, c, red)};
  const std::uint64_t packs = units_of(cut.at_packs.units, wide_pack::units);
  const std::uint64_t share = part_of(packs, static_cast<unsigned>(ranks), 0).size();
  const range mine = part_of_block(s, share);
  cut.share = static_cast<std::uint32_t>(share);
  cut.at_packs.begin = static_cast<std::uint32_t>(mine.begin);
  cut.at_packs.end = static_cast<std::uint32_t>(mine.end);
  return cut;
}

template <bool Whole, class S, class Call, class R>
XYL_FN void load_pack_of(const Call& c, const R&, const wide_shares<S>& cut, int p, std::uint32_t x, bool aligned,
                         held_units<S>& out) {
#pragma unroll
  for (unsigned i = 0; i < units_held<S>; ++i)
    out[i] = cut.has_unit(p, x, i)
                 ? load_user<typename R::element, unit16, Whole>(
                       c.input, cut.unit(p, x, i) * std::uint64_t{2 * R::per_word}, c.count, aligned)
                 : unit16{};
}

template <bool Whole, class S, class Call, class R>
XYL_FN void store_pack_of(const Call& c, const R&, const wide_shares<S>& cut, int p, std::uint32_t x, bool aligned,
                          const held_units<S>& sum) {
#pragma unroll
  for (unsigned i = 0; i < units_held<S>; ++i)
    if (cut.has_unit(p, x, i))
      store_user<typename R::element, unit16, Whole>(c.output, cut.unit(p, x, i) * std::uint64_t{2 * R::per_word},
                                                     c.count, aligned, sum[i]);
}

// Loads pack x of the shares of N peers, rank + first and on, and puts them; all loads go before the first put.
template <int N, bool Whole, class S, class Call, class R>
XYL_FN void scatter_packs(S& s, const Call& c, const R& red, const wide_shares<S>& cut, std::uint32_t x, int first,
                          int ranks, bool aligned) {
  const epoch_t e = s.epoch();
  const std::uint64_t to = c.map.wide_offset(c.map.slot(e), static_cast<unsigned>(c.rank), x);
  held_units<S> out[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = c.rank + first + i < ranks ? c.rank + first + i : c.rank + first + i - ranks;
    if (first + i < ranks) load_pack_of<Whole>(c, red, cut, p, x, aligned, out[i]);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = c.rank + first + i < ranks ? c.rank + first + i : c.rank + first + i - ranks;
    wide_pack* const one[1] = {first + i < ranks && cut.at_packs.has(x) ? at<wide_pack>(c, p, to) : nullptr};
    s.template put_packs<1>(one, out[i], e);
  }
}

// Waits for pack x of this rank's share of all ranks, and adds them in rank order.
template <bool Whole, class S, class Call, class R>
XYL_FN bool sum_packs(S& s, const Call& c, const R& red, const wide_shares<S>& cut, bool with_headers,
                      std::uint32_t first, bool aligned, held_units<S>& sum) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  constexpr int together = R::ranks ? R::ranks : packet_batch;
  const std::uint32_t x = cut.at_packs.pack(first, 0);
  held_units<S> own;
  load_pack_of<Whole>(c, red, cut, c.rank, x, aligned, own);
  typename R::accumulator acc[units_held<S>][2][R::per_word] = {};
  for (int p = 0; p < ranks; p += together) {
    held_units<S> units[together];
#pragma unroll
    for (int n = 0; n < together; ++n)
#pragma unroll
      for (unsigned i = 0; i < units_held<S>; ++i) units[n][i] = own[i];
    if (!get_packs_of<together, 1>(s, c, cut.at_packs, with_headers && p == 0, first, p, ranks, units, 0,
                                   phase::scatter))
      return false;
#pragma unroll
    for (unsigned i = 0; i < units_held<S>; ++i) {
      const unit16* of[together];
#pragma unroll
      for (int n = 0; n < together; ++n) of[n] = &units[n][i];
      add_units<together>(red, of, p, ranks, acc[i]);
    }
  }
#pragma unroll
  for (unsigned i = 0; i < units_held<S>; ++i)
    sum[i] = cut.has_unit(c.rank, x, i) ? finished_unit(c, red, cut.unit(c.rank, x, i), acc[i]) : unit16{};
  return true;
}

// Waits for pack x of the finished shares of the others and stores them.
template <bool Whole, class S, class Call, class R>
XYL_FN bool gather_packs(S& s, const Call& c, const R& red, const wide_shares<S>& cut, std::uint32_t first,
                         bool aligned) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  constexpr int together = R::ranks ? R::ranks : packet_batch;
  const std::uint32_t x = cut.at_packs.pack(first, 0);
  for (int p = 0; p < ranks; p += together) {
    held_units<S> units[together] = {};
    if (!get_packs_of<together, 1>(s, c, cut.at_packs, false, first, p, ranks, units, cut.share, phase::gather))
      return false;
#pragma unroll
    for (int n = 0; n < together; ++n)
      if (p + n < ranks && p + n != c.rank) store_pack_of<Whole>(c, red, cut, p + n, x, aligned, units[n]);
  }
  return true;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool two_shot_wide_block(S& s, const Call& c, const R& red) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  constexpr int batch = R::ranks ? R::ranks - 1 : packet_batch;
  const epoch_t e = s.epoch();
  const bool in_aligned = is_aligned(c.input, 16), out_aligned = is_aligned(c.output, 16);
  const wide_shares<S> cut = cut_in_packs(s, c, red, ranks);
  const std::uint32_t begin = cut.at_packs.begin, end = cut.at_packs.end, step = cut.at_packs.groups;

  put_headers(s, c);
#pragma unroll 1
  for (std::uint32_t first = begin; first < end; first += step)
    for (int k = 1; k < ranks; k += batch)
      scatter_packs<batch, Whole>(s, c, red, cut, cut.at_packs.pack(first, 0), k, ranks, in_aligned);
  sent(s);

  // As in the one-shot form. Results go on their way at once: in a call that fails nobody reads them.
  if (!join(s)) return false;
  bool with_headers = packs_bring_headers(s, c);
  if (!with_headers && !s.all(check_headers(s, c))) return false;
#pragma unroll 1
  for (std::uint32_t first = begin; first < end || with_headers; first += step) {
    const std::uint32_t x = cut.at_packs.pack(first, 0);
    held_units<S> sum;
    if (!sum_packs<Whole>(s, c, red, cut, with_headers, first, in_aligned, sum)) return false;
    with_headers = false;
    received(s);
    const std::uint64_t to = c.map.wide_offset(c.map.slot(e), static_cast<unsigned>(c.rank), cut.share + x);
    for (int k = 1; k < ranks; k += batch) {
      wide_pack* packs[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int p = c.rank + k + i < ranks ? c.rank + k + i : c.rank + k + i - ranks;
        packs[i] = k + i < ranks && cut.at_packs.has(x) ? at<wide_pack>(c, p, to) : nullptr;
      }
      s.template put_packs<batch>(packs, sum, e);
    }
    store_pack_of<Whole>(c, red, cut, c.rank, x, out_aligned, sum);
  }
#pragma unroll 1
  for (std::uint32_t first = begin; first < end; first += step)
    if (!gather_packs<Whole>(s, c, red, cut, first, out_aligned)) return false;
  return true;
}

// Returns this lane's verdict, see packet_allreduce().
template <class S, class Call, class R>
XYL_FN bool two_shot_wide_allreduce(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  bool good = begin_early(s);
  if (good) {
    if (is_whole<T, unit16>(c.input, c.count) && is_whole<T, unit16>(c.output, c.count)) [[likely]]
      good = two_shot_wide_block<true>(s, c, red);
    else
      good = two_shot_wide_block<false>(s, c, red);
  }
  s.leave();
  return good;
}

}  // namespace xyl
