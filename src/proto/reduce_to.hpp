// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions whose result is not everybody's: reduce-scatter, where rank p gets block p, and reduce, where the root
// gets all. Bits are those of an allreduce: rank order, starting with rank 0, one rounding. Flagged and with
// packets, as flagged.hpp and packet.hpp; all rules of theirs hold.
#pragma once

#include "proto/exchange.hpp"
#include "proto/packet.hpp"

namespace xyl {

// Who gets the result. What rank p contributes to rank q's is c.count elements from p's input + q * input_stride
// on.
struct reduce_target {
  std::uint64_t input_stride = 0;        // bytes
  std::int32_t to = movement::everyone;  // reduce: the root, with input_stride 0

  XYL_FN constexpr bool receives(int p) const { return to == movement::everyone || to == p; }
};

// A call with other buffers, for the functions of bulk.hpp and packet.hpp.
template <class Call>
struct call_view {
  const std::byte* input;
  std::byte* output;
  std::uint64_t count;
  std::uint64_t fingerprint;
  std::int32_t rank, ranks;
  const decltype(Call::map)& map;
  std::byte* const (&workspace)[Call::capacity];

  XYL_FN call_view(const Call& c, const std::byte* input, std::byte* output)
      : input(input),
        output(output),
        count(c.count),
        fingerprint(c.fingerprint),
        rank(c.rank),
        ranks(c.ranks),
        map(c.map),
        workspace(c.workspace) {}
};

// One phase: every contribution goes to whom it is for, who reduces.
template <class S, class Call, class R>
XYL_FN bool direct_reduce_block(S& s, const Call& c, const R& red, const reduce_target& target) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const range mine = part_of_block(s, total);
  const auto staged = [&](int p) { return piece_offset(s, c, s.epoch(), p, total * 16) + mine.begin * 16; };
  const auto for_rank = [&](int p) {
    return call_view<Call>(c, c.input + target.input_stride * static_cast<unsigned>(p), c.output);
  };

  if constexpr (!is_single_lane<S>) put_headers(s, c);
#pragma unroll 1
  for (int k = 1; k < ranks; ++k) {
    const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
    if (target.receives(p)) push_input(s, for_rank(p), red, mine, staged(c.rank), k, k);
  }
  const auto pushed = [&](epoch_t e) { return piece_offset(s, c, e, c.rank, total * 16); };
  if (!exchange_first_phase(s, c, flag_family::direct_reduce, phase::contribution, total * 16, pushed))
    return false;
  if (target.receives(c.rank)) reduce_in_rank_order(s, for_rank(c.rank), red, mine, staged);
  return true;
}

// Reduce in two phases: share p of every rank goes to rank p, which reduces it into the root's workspace.
template <class S, class Call, class R>
XYL_FN bool two_phase_reduce_block(S& s, const Call& c, const R& red, int root) {
  const unsigned slot = c.map.slot(s.epoch());
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const std::uint64_t total = units_of(c.count, per_unit(red));
  const std::uint64_t share = part_of(total, static_cast<unsigned>(ranks), 0).size();
  const shares cut{share, total, part_of_block(s, share)};
  const std::uint64_t place = place_of(s, c, 2 * share * 16) + cut.part.begin * 16;
  const auto scattered = [&](int p) { return c.map.bulk_offset(slot, static_cast<unsigned>(p)) + place; };
  const auto gathered = [&](int p) { return scattered(p) + share * 16; };
  const range own = cut.of(c.rank);

  if constexpr (!is_single_lane<S>) put_headers(s, c);
  push_shares(s, c, red, cut, false, [&](int) { return scattered(c.rank); });
  if (!exchange_first_phase(s, c, flag_family::reduce_scatter, phase::scatter)) return false;
  if constexpr (ranged_reduction<R>) {
    if (c.rank == root)
      reduce_in_rank_order(s, c, red, own, scattered);
    else
      red.reduce_for(s, c, own, scattered, root, gathered(c.rank));
  } else {
    // As if the whole output lay in the root's workspace, so that this rank's share of it falls into its region.
    std::byte* const sent = c.workspace[root] + gathered(c.rank) - own.begin * 16;
    reduce_in_rank_order(s, call_view<Call>(c, c.input, c.rank == root ? c.output : sent), red, own, scattered);
  }
  const auto is_root = [&](int p) { return p == root; };
  post_some(s, c, flag_family::reduce_gather, is_root);
  if (c.rank != root) return true;
  const auto is_other = [&](int p) { return p != root; };
  if (!s.all(await_some(s, c, flag_family::reduce_gather, phase::gather, is_other))) return false;
  deliver_shares(s, c, red, cut, false, gathered);
  return true;
}

// With packets. c.count is limited by what a packet region holds.
// Whole: units and buffers are whole words, which are all loaded before any is put, and those of the first unit
// before the epoch is known. Else a load is long, and they are made in turn.
template <bool Whole, class S, class Call, class R>
XYL_FN bool packet_reduce_block(S& s, const Call& c, const R& red, const reduce_target& target) {
  using T = typename R::element;
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const unsigned grain = grain_of(c.input, target.input_stride), out_grain = grain_of(c.output, 0);
  const std::uint64_t bytes = c.count * sizeof(T);
  const range mine = part_of_block(s, units_of(c.count, R::per_word));
  const auto load = [&](int p, std::uint64_t u) {
    const std::byte* const from = c.input + target.input_stride * static_cast<unsigned>(p) + u * 8;
    if constexpr (Whole)
      return reinterpret_cast<const overlay<std::uint64_t>*>(from)->word;
    else
      return load_grained<std::uint64_t>(from, bytes - u * 8, grain);
  };
  const auto peer = [&](int k) { return c.rank + k < ranks ? c.rank + k : c.rank + k - ranks; };
  constexpr int at_once = Whole ? R::ranks - 1 : 1;
  std::uint64_t out[at_once] = {};
  const auto load_out = [&](std::uint64_t u, int first) {
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (target.receives(peer(first + i))) out[i] = load(peer(first + i), u);
  };

  const std::uint64_t first_unit = mine.begin + s.lane();
  if (Whole && first_unit < mine.end) load_out(first_unit, 1);
  put_headers(s, c);
  const epoch_t e = s.epoch();
  for (std::uint64_t u = first_unit; u < mine.end; u += s.lanes()) {
    const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), u);
#pragma unroll 1
    for (int first = 1; first < ranks; first += at_once) {
      if (!Whole || u != first_unit) load_out(u, first);
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (target.receives(peer(first + i))) s.put(at<line>(c, peer(first + i), to), out[i], packet_epoch(e));
    }
  }
  sent(s);
  if (!join(s)) return false;

  constexpr int batch = R::ranks ? R::ranks : packet_batch;
  const bool receives = target.receives(c.rank);
  bool good = check_headers(s, c);
  bool agreed = false;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed; first += s.lanes()) {
    const std::uint64_t u = first + s.lane();
    const bool has_unit = receives && u < mine.end;
    typename R::accumulator acc[R::accumulators] = {};
    if (good && has_unit) {
      const std::uint64_t own = load(c.rank, u);
      for (int p = 0; p < ranks && good; p += batch)
        good = reduce_packets<batch, false>(s, c, red, p, ranks, true, u, own, acc);
    }
    if (!agreed) {
      if (!s.all(good)) return false;
      agreed = true;
    }
    if (good && has_unit) {
      received(s);
#pragma unroll
      for (int k = 0; k < R::accumulators; ++k) acc[k] = red.finish(acc[k]);
      if constexpr (Whole)
        reinterpret_cast<overlay<std::uint64_t>*>(c.output + u * 8)->word = red.encode(acc);
      else
        store_grained(c.output + u * 8, bytes - u * 8, out_grain, red.encode(acc));
    }
  }
  return good;
}

template <class S, class Call, class R>
XYL_FN bool direct_reduce(S& s, const Call& c, const R& red, const reduce_target& target) {
  const bool good = s.begin() && direct_reduce_block(s, c, red, target);
  s.leave();
  return good;
}

template <class S, class Call, class R>
XYL_FN bool two_phase_reduce(S& s, const Call& c, const R& red, int root) {
  const bool good = s.begin() && two_phase_reduce_block(s, c, red, root);
  s.leave();
  return good;
}

template <class S, class Call, class R>
XYL_FN bool packet_reduce(S& s, const Call& c, const R& red, const reduce_target& target) {
  bool good = begin_early(s);
  if (good) {
    // As in packet_allreduce().
    bool whole = false;
    if constexpr (R::ranks != 0)
      whole =
          c.count % R::per_word == 0 && grain_of(c.input, target.input_stride) >= 8 && grain_of(c.output, 0) >= 8;
    if constexpr (R::ranks != 0)
      if (whole) good = packet_reduce_block<true>(s, c, red, target);
    if (!whole) good = packet_reduce_block<false>(s, c, red, target);
  }
  s.leave();
  return good;
}

}  // namespace xyl
