// SPDX-License-Identifier: BSD-3-Clause
//
// One-shot allreduce with packets: every rank puts its whole message, as lines of data and epoch, into every peer's
// memory, and reduces what arrives there in rank order. One trip, no flag and no ordering between stores, at twice
// the bytes: the fastest for small messages. Relies on 8-byte stores being seen whole.
#pragma once

#include "proto/header.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Peers looked at together where the number of ranks is not a constant.
inline constexpr int packet_batch = 4;

// Waits for unit `u` of ranks [first, first + N); words[i] becomes rank first + i's, this rank's own stays. With
// Headers the peers' headers are awaited too, in the same round of loads, and every lane convinces itself that the
// calls fit together: then no barrier has to carry one lane's verdict to the others.
template <int N, bool Headers, class S, class Call>
XYL_FN bool get_packets(S& s, const Call& c, int first, int ranks, std::uint64_t u, std::uint64_t (&words)[N]) {
  const unsigned slot = c.map.slot(s.epoch());
  constexpr int lines_in_all = Headers ? 2 * N : N;
  const line* lines[lines_in_all];
  std::uint64_t got[lines_in_all];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = first + i;
    const bool is_peer = p != c.rank && p < ranks;
    const auto source = static_cast<unsigned>(p);
    got[i] = words[i];
    lines[i] = is_peer ? at<const line>(c, c.rank, c.map.packet_offset(slot, source, u)) : nullptr;
    if constexpr (Headers) {
      got[N + i] = c.fingerprint;
      lines[N + i] = is_peer ? at<const line>(c, c.rank, c.map.header_offset(slot, source)) : nullptr;
    }
  }
  if (!s.template get_all<lines_in_all>(lines, packet_epoch(s.epoch()), got, waiting{first, phase::packet, N}))
    return false;
  bool good = true;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    words[i] = got[i];
    if constexpr (Headers) good = good && got[N + i] == c.fingerprint;
  }
  return good;
}

// Combines unit `u` of ranks [first, first + N) into acc, in rank order; this rank's own comes from `own`.
template <int N, bool Headers, class S, class Call, class R>
XYL_FN bool reduce_packets(S& s, const Call& c, const R& red, int first, int ranks, std::uint64_t u,
                           std::uint64_t own, typename R::accumulator (&acc)[R::per_word]) {
  std::uint64_t words[N];
#pragma unroll
  for (int i = 0; i < N; ++i) words[i] = own;
  if (!get_packets<N, Headers>(s, c, first, ranks, u, words)) return false;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    typename R::accumulator value[R::per_word];
    R::codec::decode(words[i], value);
    if (first + i == 0)
#pragma unroll
      for (int k = 0; k < R::per_word; ++k) acc[k] = value[k];
    else if (first + i < ranks)
      red.accumulate(acc, value);
  }
  return true;
}

// A space may split begin() in two: begin_early() says the epoch, join() the verdict. What is put in between is
// harmless where the verdict is no: packets of a call that has failed, or of an epoch that was told from a word in
// disorder.
template <class S>
XYL_FN bool begin_early(S& s) {
  if constexpr (requires { s.begin_early(); }) {
    s.begin_early();
    return true;
  } else {
    return s.begin();
  }
}
template <class S>
XYL_FN bool join(S& s) {
  if constexpr (requires { s.join(); })
    return s.join();
  else
    return true;
}

// The first unit of this lane: its trip to memory overlaps with the one of the epoch. Not before begin_early(): the
// launch before may still be writing it.
template <bool Whole, class S, class Call, class R>
XYL_FN std::uint64_t first_packet(const S& s, const Call& c, const R&) {
  const range mine = part_of_block(s, units_of(c.count, R::per_word));
  const std::uint64_t u = mine.begin + s.lane();
  return u < mine.end ? load_user<typename R::element, std::uint64_t, Whole>(c.input, u * R::per_word, c.count,
                                                                             is_aligned(c.input, 8))
                      : 0;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool packet_allreduce_block(S& s, const Call& c, const R& red, std::uint64_t first_word) {
  using T = typename R::element;
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const epoch_t e = s.epoch();
  const bool in_aligned = is_aligned(c.input, 8), out_aligned = is_aligned(c.output, 8);
  const range mine = part_of_block(s, units_of(c.count, R::per_word));
  const auto own = [&](std::uint64_t u) {
    return u - mine.begin < s.lanes()
               ? first_word
               : load_user<T, std::uint64_t, Whole>(c.input, u * R::per_word, c.count, in_aligned);
  };

  put_headers(s, c);
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

  // Few peers and many lanes: each lane looks at the headers beside its packets. Else the lanes agree once, after
  // their first unit, so that the waits for headers and packets overlap. Either way nothing is stored before, and
  // the last lanes refuse what does not fit together: packets may never come then.
  constexpr bool each_lane_checks = R::ranks == 2 && !is_single_lane<S>;
  if (!join(s)) return false;
  bool good = check_headers(s, c);
  bool agreed = each_lane_checks;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed; first += s.lanes()) {
    const std::uint64_t u = first + s.lane();
    typename R::accumulator acc[R::per_word] = {};
    if (good && u < mine.end) {
      const std::uint64_t word = own(u);
      if constexpr (R::ranks != 0) {
        // Once seen, headers need not be looked at again.
        good = each_lane_checks && first == mine.begin
                   ? reduce_packets<R::ranks, each_lane_checks>(s, c, red, 0, R::ranks, u, word, acc)
                   : reduce_packets<R::ranks, false>(s, c, red, 0, R::ranks, u, word, acc);
      } else {
        for (int p = 0; p < ranks && good; p += packet_batch)
          good = reduce_packets<packet_batch, false>(s, c, red, p, ranks, u, word, acc);
      }
    }
    if (!agreed) {
      if (!s.all(good)) return false;
      agreed = true;
    }
    if (good && u < mine.end) {
      received(s);
#pragma unroll
      for (int k = 0; k < R::per_word; ++k) acc[k] = red.finish(acc[k]);
      store_user<T, std::uint64_t, Whole>(c.output, u * R::per_word, c.count, out_aligned, R::codec::encode(acc));
    }
  }
  return good;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool packet_allreduce_of(S& s, const Call& c, const R& red) {
  const bool good = begin_early(s) && packet_allreduce_block<Whole>(s, c, red, first_packet<Whole>(s, c, red));
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
