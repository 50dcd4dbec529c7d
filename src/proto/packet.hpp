// SPDX-License-Identifier: BSD-3-Clause
//
// One-shot allreduce with packets: every rank puts its whole message, as lines of data and epoch, into every peer's
// memory, and reduces what arrives there in rank order. One trip, no flag and no ordering between stores, at twice
// the bytes: the fastest for small messages. Relies on 8-byte stores being seen whole. It takes no addend: the
// shortest calls are as long as their code.
#pragma once

#include "proto/header.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Peers looked at together where the number of ranks is not a constant.
inline constexpr int packet_batch = 4;

// Waits for unit `u` of ranks [first, first + N); words[i] becomes rank first + i's, this rank's own stays. Where
// all ranks are meant, whose number is N then, the space may know a shorter way.
template <int N, bool All, class S, class Call>
XYL_FN bool get_packets(S& s, const Call& c, int first, int ranks, std::uint64_t u, std::uint64_t (&words)[N]) {
  const unsigned slot = c.map.slot(s.epoch());
  const waiting w{first, phase::packet, N};
  const line* const row = at<const line>(c, c.rank, c.map.packet_offset(slot, static_cast<unsigned>(first), u));
  if constexpr (All && requires { s.template get_row<N>(row, c.map.packet_stride, c.rank, 0u, words, w); }) {
    return s.template get_row<N>(row, c.map.packet_stride, c.rank, packet_epoch(s.epoch()), words, w);
  } else {
    const line* lines[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int p = first + i;
      lines[i] = p != c.rank && p < ranks
                     ? at<const line>(c, c.rank, c.map.packet_offset(slot, static_cast<unsigned>(p), u))
                     : nullptr;
    }
    return s.template get_all<N>(lines, packet_epoch(s.epoch()), words, w);
  }
}

// The same between two ranks: there is one peer. With Headers its header is awaited too, see header.hpp, and a lane
// without data comes for that alone.
template <bool Headers, class S, class Call>
XYL_FN bool get_packet_of_peer(S& s, const Call& c, bool has_data, std::uint64_t u, std::uint64_t (&words)[2]) {
  const int peer = 1 - c.rank;
  constexpr int lines_in_all = Headers ? 2 : 1;
  const line* lines[lines_in_all];
  std::uint64_t got[lines_in_all] = {words[0]};
  lines[0] = has_data ? at<const line>(c, c.rank,
                                       c.map.packet_offset(c.map.slot(s.epoch()), static_cast<unsigned>(peer), u))
                      : nullptr;
  const waiting w{peer, phase::packet, 1};
  bool good;
  if constexpr (Headers)
    good = get_all_and_header(s, c, peer, lines, got, w);
  else
    good = s.template get_all<1>(lines, packet_epoch(s.epoch()), got, w);
  words[0] = c.rank == 0 ? words[0] : got[0];
  words[1] = c.rank == 0 ? got[0] : words[1];
  return good;
}

// Combines unit `u` of ranks [first, first + N) into acc, in rank order; this rank's own comes from `own`.
template <int N, bool Headers, class S, class Call, class R>
XYL_FN bool reduce_packets(S& s, const Call& c, const R& red, int first, int ranks, bool has_data, std::uint64_t u,
                           std::uint64_t own, typename R::accumulator (&acc)[R::accumulators]) {
  std::uint64_t words[N];
#pragma unroll
  for (int i = 0; i < N; ++i) words[i] = own;
  if constexpr (N == 2) {  // only where there are two ranks
    if (!get_packet_of_peer<Headers>(s, c, has_data, u, words)) return false;
  } else {
    if (!get_packets<N, N == R::ranks>(s, c, first, ranks, u, words)) return false;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    typename R::accumulator value[R::accumulators];
    red.decode(words[i], value);
    if (first + i == 0)
#pragma unroll
      for (int k = 0; k < R::accumulators; ++k) acc[k] = value[k];
    else if (first + i < ranks)
      red.accumulate(acc, value);
  }
  return true;
}

// The same over all ranks. with_headers: this is the lane's first, and comes for its header too (then `good` is the
// verdict of no other wait); only between two.
template <class R, class S, class Call>
XYL_FN bool reduce_unit(S& s, const Call& c, const R& red, bool with_headers, bool good, bool has_data,
                        std::uint64_t u, std::uint64_t own, typename R::accumulator (&acc)[R::accumulators]) {
  if constexpr (R::ranks != 0) {
    if constexpr (R::ranks == 2)
      if (with_headers) return reduce_packets<R::ranks, true>(s, c, red, 0, R::ranks, has_data, u, own, acc);
    return good && (!has_data || reduce_packets<R::ranks, false>(s, c, red, 0, R::ranks, true, u, own, acc));
  } else {
    for (int p = 0; p < c.ranks && good && has_data; p += packet_batch)
      good = reduce_packets<packet_batch, false>(s, c, red, p, c.ranks, true, u, own, acc);
    return good;
  }
}
// Whether the first units bring the headers: between two ranks, but not where the looks at one line follow each
// other. Among more the code for that, a wait of its own, costs a small call more than it saves (0.3 us with 8
// ranks of one GPU): instructions have to be fetched.
template <class R, class S, class Call>
XYL_FN bool units_bring_headers(const S& s, const Call& c) {
  return R::ranks == 2 && !c.map.headers_by_block && can_share_headers(s, c);
}

// The first unit of this lane: its trip to memory overlaps with the one of the epoch. Not before begin_early(): the
// launch before may still be writing it.
template <bool Whole, class S, class Call, class R>
XYL_FN std::uint64_t load_first(const S& s, const Call& c, const R&) {
  const range mine = part_of_block(s, units_of(c.count, R::per_word));
  const std::uint64_t u = mine.begin + s.lane();
  if (u >= mine.end) return 0;
  return load_user<typename R::element, std::uint64_t, Whole>(c.input, u * R::per_word, c.count,
                                                              is_aligned(c.input, 8));
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool packet_allreduce_block(S& s, const Call& c, const R& red, std::uint64_t first_word) {
  using T = typename R::element;
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const bool in_aligned = is_aligned(c.input, 8), out_aligned = is_aligned(c.output, 8);
  const range mine = part_of_block(s, units_of(c.count, R::per_word));
  const auto own = [&](std::uint64_t u) {
    return u - mine.begin < s.lanes()
               ? first_word
               : load_user<T, std::uint64_t, Whole>(c.input, u * R::per_word, c.count, in_aligned);
  };

  put_headers(s, c);
  const epoch_t e = s.epoch();
  for (std::uint64_t u = mine.begin + s.lane(); u < mine.end; u += s.lanes()) {
    const std::uint64_t word = own(u);
    const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), u);
#pragma unroll
    for (int k = 1; k < ranks; ++k) {
      const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
      s.put(at<line>(c, p, to), word, packet_epoch(e));
    }
  }

  sent(s);

  // Nothing is stored before it is known that the calls fit together. Between two ranks every lane sees that for
  // itself, as there is one header; else the lanes agree once, after their first unit.
  if (!join(s)) return false;
  bool with_headers = units_bring_headers<R>(s, c);
  bool good = with_headers || check_headers(s, c);
  bool agreed = with_headers && R::ranks == 2;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed || with_headers; first += s.lanes()) {
    const std::uint64_t u = first + s.lane();
    const bool has_data = u < mine.end;
    typename R::accumulator acc[R::accumulators] = {};
    good = reduce_unit(s, c, red, with_headers, good, has_data, u, has_data ? own(u) : 0, acc);
    with_headers = false;
    if (!agreed) {
      if (!s.all(good)) return false;
      agreed = true;
    }
    if (good && has_data) {
      received(s);
#pragma unroll
      for (int k = 0; k < R::accumulators; ++k) acc[k] = red.finish(acc[k]);
      store_user<T, std::uint64_t, Whole>(c.output, u * R::per_word, c.count, out_aligned, red.encode(acc));
    }
  }
  return good;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool packet_allreduce_of(S& s, const Call& c, const R& red) {
  const bool good = begin_early(s) && packet_allreduce_block<Whole>(s, c, red, load_first<Whole>(s, c, red));
  s.leave();
  return good;
}

// Returns this lane's verdict, as all protocols do: whoever gave up has poisoned the communicator, so a launch
// failed if any lane's is false.
template <class S, class Call, class R>
XYL_FN bool packet_allreduce(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  // Where speed counts, the common case gets code of its own: what is jumped over has to be fetched too.
  if constexpr (R::ranks != 0)
    if (is_whole<T, std::uint64_t>(c.input, c.count) && is_whole<T, std::uint64_t>(c.output, c.count)) [[likely]]
      return packet_allreduce_of<true>(s, c, red);
  return packet_allreduce_of<false>(s, c, red);
}

}  // namespace xyl
