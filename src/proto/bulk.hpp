// SPDX-License-Identifier: BSD-3-Clause
//
// Moving and reducing bulk data, in units of 16 bytes: what the flagged protocols do between their flags. Staged
// data is padded to whole units. The text below is for spaces with many lanes; a reduction that brings functions of
// its own over whole ranges (the host's, see exec/host_reduction.hpp) is called instead.
#pragma once

#include "proto/addend.hpp"
#include "proto/header.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

template <class R>
concept ranged_reduction = requires(const R& red) {
  red.reduce_range;
};

// Elements in a unit of bulk data.
template <class R>
XYL_FN unsigned per_unit(const R& red) {
  if constexpr (ranged_reduction<R>)
    return 16 / red.element_bytes;
  else
    return 2 * R::per_word;
}

// The part of the user's buffer that `units` covers, in bytes; the last unit may be short.
template <class R>
XYL_FN std::uint64_t bytes_in(const R& red, const range units, std::uint64_t count) {
  const std::uint64_t first = units.begin * per_unit(red), last = units.end * per_unit(red);
  const std::uint64_t end = last < count ? last : count;
  return first < end ? (end - first) * (16 / per_unit(red)) : 0;
}

// Units that a lane loads before it uses the first, where whole and aligned units follow each other: what keeps
// enough loads in flight. The rest goes unit by unit.
inline constexpr int bulk_unroll = 4;

// The end of the units that lie whole and aligned in the user's buffer, at most units.end.
template <class R>
XYL_FN std::uint64_t whole_end(const R& red, const range units, std::uint64_t count, bool aligned) {
  const std::uint64_t whole = aligned ? count / per_unit(red) : 0;
  return whole < units.end ? whole : units.end;
}

XYL_FN const unit16* user_unit(const std::byte* buffer, std::uint64_t u) {
  return reinterpret_cast<const unit16*>(buffer) + u;
}
XYL_FN unit16* user_unit(std::byte* buffer, std::uint64_t u) { return reinterpret_cast<unit16*>(buffer) + u; }

// Copies units of the input to workspace offset `to` of ranks rank + first_step .. rank + last_step (mod ranks).
// All ranks start with a different peer, so that no memory is everybody's target at once.
template <class S, class Call, class R>
XYL_FN void push_input(S& s, const Call& c, const R& red, range units, std::uint64_t to, int first_step,
                       int last_step) {
  if constexpr (ranged_reduction<R>) {
    for (int k = first_step; k <= last_step; ++k)
      stage(s, c.workspace[(c.rank + k) % c.ranks] + to, c.input + units.begin * 16, bytes_in(red, units, c.count));
  } else {
    using T = typename R::element;
    const bool aligned = is_aligned(c.input, 16);
    const std::uint64_t whole = whole_end(red, units, c.count, aligned), lanes = s.lanes();
    std::uint64_t u = units.begin + s.lane();
    for (; u + (bulk_unroll - 1) * lanes < whole; u += bulk_unroll * lanes) {
      unit16 data[bulk_unroll];
#pragma unroll
      for (int i = 0; i < bulk_unroll; ++i) data[i] = s.load16(user_unit(c.input, u + i * lanes));
#pragma unroll
      for (int k = first_step; k <= last_step; ++k) {
        const int p = c.rank + k < c.ranks ? c.rank + k : c.rank + k - c.ranks;
#pragma unroll
        for (int i = 0; i < bulk_unroll; ++i)
          s.store16(at<unit16>(c, p, to) + (u + i * lanes - units.begin), data[i]);
      }
    }
    for (; u < units.end; u += lanes) {
      const auto data = load_user<T, unit16>(c.input, u * per_unit(red), c.count, aligned);
#pragma unroll
      for (int k = first_step; k <= last_step; ++k) {
        const int p = c.rank + k < c.ranks ? c.rank + k : c.rank + k - c.ranks;
        s.store16(at<unit16>(c, p, to) + (u - units.begin), data);
      }
    }
  }
}

// Copies units that lie at offset `from` of the holder's workspace to the output, and, if `forward` >= 0, also to
// workspace offset `to` of that rank.
template <class S, class Call, class R>
XYL_FN void deliver(S& s, const Call& c, const R& red, range units, int holder, std::uint64_t from,
                    int forward = -1, std::uint64_t to = 0) {
  if constexpr (ranged_reduction<R>) {
    const std::uint64_t bytes = bytes_in(red, units, c.count);
    if (forward >= 0) stage(s, c.workspace[forward] + to, c.workspace[holder] + from, bytes);
    s.copy(c.output + units.begin * 16, c.workspace[holder] + from, bytes);
  } else {
    using T = typename R::element;
    const bool aligned = is_aligned(c.output, 16);
    const unit16* const staged = at<const unit16>(c, holder, from);
    const std::uint64_t whole = whole_end(red, units, c.count, aligned), lanes = s.lanes();
    std::uint64_t u = units.begin + s.lane();
    for (; u + (bulk_unroll - 1) * lanes < whole; u += bulk_unroll * lanes) {
      unit16 data[bulk_unroll];
#pragma unroll
      for (int i = 0; i < bulk_unroll; ++i) data[i] = s.load_peer16(staged + (u + i * lanes - units.begin));
#pragma unroll
      for (int i = 0; i < bulk_unroll; ++i) {
        if (forward >= 0) s.store16(at<unit16>(c, forward, to) + (u + i * lanes - units.begin), data[i]);
        s.store16(user_unit(c.output, u + i * lanes), data[i]);
      }
    }
    for (; u < units.end; u += lanes) {
      const unit16 data = s.load_peer16(staged + (u - units.begin));
      if (forward >= 0) s.store16(at<unit16>(c, forward, to) + (u - units.begin), data);
      store_user<T>(c.output, u * per_unit(red), c.count, aligned, data);
    }
  }
}

// acc = own or acc op value, for the two words of a unit.
template <class R>
XYL_FN void combine_unit(const R& red, bool is_first, const unit16& data,
                         typename R::accumulator (&acc)[2][R::accumulators]) {
  std::uint64_t words[2];
  memcpy(words, &data, sizeof words);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    typename R::accumulator value[R::accumulators];
    red.decode(words[h], value);
    if (is_first)
#pragma unroll
      for (int k = 0; k < R::accumulators; ++k) acc[h][k] = value[k];
    else
      red.accumulate(acc[h], value);
  }
}

// u: its number in the message.
template <class Call, class R>
XYL_FN unit16 finish_unit(const Call& c, const R& red, std::uint64_t u, bool is_last,
                          typename R::accumulator (&acc)[2][R::accumulators]) {
  std::uint64_t words[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (is_last) finish_word(c, red, u * per_unit(red) + static_cast<unsigned>(h) * R::per_word, acc[h]);
    words[h] = red.encode(acc[h]);
  }
  unit16 data;
  memcpy(&data, words, sizeof words);
  return data;
}

// Peers looked at together where the number of ranks is not a constant, or the units are not whole and aligned.
inline constexpr int bulk_batch = 4;

// Combines a unit of ranks [first, first + N) into acc, in rank order; `staged`: its number in the peers' regions,
// `own`: this rank's.
template <int N, class S, class Call, class R, class From>
XYL_FN void reduce_peers(S& s, const Call& c, const R& red, int first, int ranks, const unit16& own,
                         std::uint64_t staged, From from, bool of_owners,
                         typename R::accumulator (&acc)[2][R::accumulators]) {
  unit16 data[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = first + i;
    // Where the number of ranks is a constant this rank's region is loaded too, though what lies there is not used:
    // a load under a condition would share its registers with `own`, and wait for that.
    if (R::ranks != 0 || (p != c.rank && p < ranks)) {
      const int of = p < ranks ? p : first;
      data[i] = s.load_peer16(at<const unit16>(c, of_owners ? of : c.rank, from(of)) + staged);
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (first + i < ranks) {
      // Word by word: an array that is stored to at a place known at run time lies in memory.
      unit16 one;
#pragma unroll
      for (int k = 0; k < 4; ++k) one.word[k] = first + i == c.rank ? own.word[k] : data[i].word[k];
      combine_unit(red, first + i == 0, one, acc);
    }
}

// Reduces units of all ranks in rank order. This rank's come from the input; rank p's from workspace offset from(p)
// of this rank or (of_owners) of rank p. The result goes to the output and, if `share` is set, to workspace offset
// `to` of every peer, or of this rank, where peers come for it.
template <class S, class Call, class R, class From>
XYL_FN void reduce_in_rank_order(S& s, const Call& c, const R& red, range units, From from, bool share = false,
                                 std::uint64_t to = 0, bool of_owners = false) {
  if constexpr (ranged_reduction<R>) {
    red.reduce_all(s, c, units, from, share, to);
  } else {
    using T = typename R::element;
    const int ranks = R::ranks ? R::ranks : c.ranks;
    const bool in_aligned = is_aligned(c.input, 16), out_aligned = is_aligned(c.output, 16);
    const std::uint64_t lanes = s.lanes();
    std::uint64_t u = units.begin + s.lane();
    if constexpr (R::ranks != 0) {
      constexpr int batch = R::ranks, unroll = batch < 8 ? 8 / batch : 1;
      const std::uint64_t whole = whole_end(red, units, c.count, in_aligned && out_aligned);
      for (; u + (unroll - 1) * lanes < whole; u += unroll * lanes) {
        unit16 data[unroll][batch];
#pragma unroll
        for (int j = 0; j < unroll; ++j)
#pragma unroll
          for (int p = 0; p < batch; ++p)
            data[j][p] = p == c.rank ? s.load16(user_unit(c.input, u + j * lanes))
                                     : s.load_peer16(at<const unit16>(c, of_owners ? p : c.rank, from(p)) +
                                                     (u + j * lanes - units.begin));
#pragma unroll
        for (int j = 0; j < unroll; ++j) {
          typename R::accumulator acc[2][R::accumulators] = {};
#pragma unroll
          for (int p = 0; p < batch; ++p) combine_unit(red, p == 0, data[j][p], acc);
          data[j][0] = finish_unit(c, red, u + j * lanes, true, acc);
          s.store16(user_unit(c.output, u + j * lanes), data[j][0]);
        }
        if (share)
#pragma unroll
          for (int k = 1; k < ranks; ++k) {
            const int p = of_owners ? c.rank : c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
#pragma unroll
            for (int j = 0; j < unroll; ++j)
              s.store16(at<unit16>(c, p, to) + (u + j * lanes - units.begin), data[j][0]);
            if (of_owners) break;
          }
      }
    }
    for (; u < units.end; u += lanes) {
      typename R::accumulator acc[2][R::accumulators] = {};
      const auto own = load_user<T, unit16>(c.input, u * per_unit(red), c.count, in_aligned);
      constexpr int batch = R::ranks != 0 && R::ranks < bulk_batch ? R::ranks : bulk_batch;
      for (int first = 0; first < ranks; first += batch)
        reduce_peers<batch>(s, c, red, first, ranks, own, u - units.begin, from, of_owners, acc);
      const unit16 sum = finish_unit(c, red, u, true, acc);
      store_user<T>(c.output, u * per_unit(red), c.count, out_aligned, sum);
      if (share)
#pragma unroll 1
        for (int k = 1; k < ranks; ++k) {
          const int p = of_owners ? c.rank : c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
          s.store16(at<unit16>(c, p, to) + (u - units.begin), sum);
          if (of_owners) break;
        }
    }
  }
}

// One step of a ring: what arrived at workspace offset `from` of this rank op this rank's input goes to offset `to`
// of `next`; in the last step (`finished`) it is the result, and goes to the output too.
template <class S, class Call, class R>
XYL_FN void reduce_and_forward(S& s, const Call& c, const R& red, range units, std::uint64_t from, int next,
                               std::uint64_t to, bool finished) {
  if constexpr (ranged_reduction<R>) {
    red.reduce_pair(s, c, units, from, next, to, finished);
  } else {
    using T = typename R::element;
    const bool in_aligned = is_aligned(c.input, 16), out_aligned = is_aligned(c.output, 16);
    for (std::uint64_t u = units.begin + s.lane(); u < units.end; u += s.lanes()) {
      typename R::accumulator acc[2][R::accumulators] = {};
      combine_unit(red, true, s.load_peer16(at<const unit16>(c, c.rank, from) + (u - units.begin)), acc);
      combine_unit(red, false, load_user<T, unit16>(c.input, u * per_unit(red), c.count, in_aligned), acc);
      const unit16 sum = finish_unit(c, red, u, finished, acc);
      s.store16(at<unit16>(c, next, to) + (u - units.begin), sum);
      if (finished) store_user<T>(c.output, u * per_unit(red), c.count, out_aligned, sum);
    }
  }
}

}  // namespace xyl
