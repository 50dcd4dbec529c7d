// SPDX-License-Identifier: BSD-3-Clause
//
// Moving and reducing bulk data, in units of 16 bytes: what the flagged protocols do between their flags. Staged data
// is padded to whole units. The text below is for spaces with many lanes; a reduction that brings functions of its own
// over whole ranges (the host's, see exec/host_reduction.hpp) is called instead.
#pragma once

#include "proto/header.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Elements in a unit of bulk data.
template <class R>
XYL_FN unsigned per_unit(const R& red) {
  if constexpr (requires { red.reduce_range; })
    return 16 / red.element_bytes;
  else
    return 2 * R::per_word;
}

template <class R>
concept ranged_reduction = requires(const R& red) { red.reduce_range; };

// Where rank p's copy of what is being reduced lies: `staged` is unit 0 of the range.
struct source {
  const std::byte* staged;
};

// The part of the user's buffer that `units` covers, in bytes; the last unit may be short.
template <class R>
XYL_FN std::uint64_t bytes_in(const R& red, const range units, std::uint64_t count) {
  const std::uint64_t first = units.begin * per_unit(red), last = units.end * per_unit(red);
  const std::uint64_t end = last < count ? last : count;
  return first < end ? (end - first) * (16 / per_unit(red)) : 0;
}

// Copies units of the input to workspace offset `to` of ranks rank + first_step .. rank + last_step (mod ranks). All
// ranks start with a different peer, so that no memory is everybody's target at once.
template <class S, class Call, class R>
XYL_FN void push_input(S& s, const Call& c, const R& red, range units, std::uint64_t to, int first_step,
                       int last_step) {
  if constexpr (ranged_reduction<R>) {
    for (int k = first_step; k <= last_step; ++k)
      s.copy(c.workspace[(c.rank + k) % c.ranks] + to, c.input + units.begin * 16, bytes_in(red, units, c.count));
  } else {
    using T = typename R::element;
    const bool aligned = is_aligned(c.input, 16);
    for (std::uint64_t u = units.begin + s.lane(); u < units.end; u += s.lanes()) {
      const auto data = load_user<T, unit16>(c.input, u * per_unit(red), c.count, aligned);
#pragma unroll
      for (int k = first_step; k <= last_step; ++k) {
        const int p = c.rank + k < c.ranks ? c.rank + k : c.rank + k - c.ranks;
        s.store16(at<unit16>(c, p, to) + (u - units.begin), data);
      }
    }
  }
}

// Copies units that lie at workspace offset `from` of this rank to the output, and, if `forward` >= 0, also to
// workspace offset `to` of that rank.
template <class S, class Call, class R>
XYL_FN void deliver(S& s, const Call& c, const R& red, range units, std::uint64_t from, int forward = -1,
                    std::uint64_t to = 0) {
  if constexpr (ranged_reduction<R>) {
    const std::uint64_t bytes = bytes_in(red, units, c.count);
    if (forward >= 0) s.copy(c.workspace[forward] + to, c.workspace[c.rank] + from, bytes);
    s.copy(c.output + units.begin * 16, c.workspace[c.rank] + from, bytes);
  } else {
    using T = typename R::element;
    const bool aligned = is_aligned(c.output, 16);
    const unit16* const staged = at<const unit16>(c, c.rank, from);
    for (std::uint64_t u = units.begin + s.lane(); u < units.end; u += s.lanes()) {
      const unit16 data = s.load_peer16(staged + (u - units.begin));
      if (forward >= 0) s.store16(at<unit16>(c, forward, to) + (u - units.begin), data);
      store_user<T>(c.output, u * per_unit(red), c.count, aligned, data);
    }
  }
}

// acc = own or acc op value, for the two words of a unit.
template <class R>
XYL_FN void combine_unit(const R& red, bool is_first, const unit16& data,
                         typename R::accumulator (&acc)[2][R::per_word]) {
  std::uint64_t words[2];
  memcpy(words, &data, sizeof words);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    typename R::accumulator value[R::per_word];
    R::codec::decode(words[h], value);
#pragma unroll
    for (int k = 0; k < R::per_word; ++k) acc[h][k] = is_first ? value[k] : red.combine(acc[h][k], value[k]);
  }
}

template <class R>
XYL_FN unit16 finish_unit(const R& red, bool is_last, typename R::accumulator (&acc)[2][R::per_word]) {
  std::uint64_t words[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (is_last)
#pragma unroll
      for (int k = 0; k < R::per_word; ++k) acc[h][k] = red.finish(acc[h][k]);
    words[h] = R::codec::encode(acc[h]);
  }
  unit16 data;
  memcpy(&data, words, sizeof words);
  return data;
}

// Peers looked at together where the number of ranks is not a constant.
inline constexpr int bulk_batch = 4;

// Reduces units of all ranks in rank order. This rank's come from the input; rank p's from workspace offset from(p) of
// this rank. The result goes to the output and, if `share` is set, to workspace offset `to` of every peer.
template <class S, class Call, class R, class From>
XYL_FN void reduce_in_rank_order(S& s, const Call& c, const R& red, range units, From from, bool share = false,
                                 std::uint64_t to = 0) {
  if constexpr (ranged_reduction<R>) {
    red.reduce_all(s, c, units, from, share, to);
  } else {
    using T = typename R::element;
    constexpr int batch = R::ranks ? R::ranks : bulk_batch;
    const int ranks = R::ranks ? R::ranks : c.ranks;
    const bool in_aligned = is_aligned(c.input, 16), out_aligned = is_aligned(c.output, 16);
    for (std::uint64_t u = units.begin + s.lane(); u < units.end; u += s.lanes()) {
      typename R::accumulator acc[2][R::per_word] = {};
      for (int first = 0; first < ranks; first += batch) {
        unit16 data[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
          const int p = first + i;
          if (p == c.rank)
            data[i] = load_user<T, unit16>(c.input, u * per_unit(red), c.count, in_aligned);
          else if (p < ranks)
            data[i] = s.load_peer16(at<const unit16>(c, c.rank, from(p)) + (u - units.begin));
        }
#pragma unroll
        for (int i = 0; i < batch; ++i)
          if (first + i < ranks) combine_unit(red, first + i == 0, data[i], acc);
      }
      const unit16 sum = finish_unit(red, true, acc);
      store_user<T>(c.output, u * per_unit(red), c.count, out_aligned, sum);
      if (share)
#pragma unroll
        for (int k = 1; k < ranks; ++k) {
          const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
          s.store16(at<unit16>(c, p, to) + (u - units.begin), sum);
        }
    }
  }
}

// One step of a ring: what arrived at workspace offset `from` of this rank op this rank's input goes to offset `to` of
// `next`; in the last step (`finished`) it is the result, and goes to the output too.
template <class S, class Call, class R>
XYL_FN void reduce_and_forward(S& s, const Call& c, const R& red, range units, std::uint64_t from, int next,
                               std::uint64_t to, bool finished) {
  if constexpr (ranged_reduction<R>) {
    red.reduce_pair(s, c, units, from, next, to, finished);
  } else {
    using T = typename R::element;
    const bool in_aligned = is_aligned(c.input, 16), out_aligned = is_aligned(c.output, 16);
    for (std::uint64_t u = units.begin + s.lane(); u < units.end; u += s.lanes()) {
      typename R::accumulator acc[2][R::per_word] = {};
      combine_unit(red, true, s.load_peer16(at<const unit16>(c, c.rank, from) + (u - units.begin)), acc);
      combine_unit(red, false, load_user<T, unit16>(c.input, u * per_unit(red), c.count, in_aligned), acc);
      const unit16 sum = finish_unit(red, finished, acc);
      s.store16(at<unit16>(c, next, to) + (u - units.begin), sum);
      if (finished) store_user<T>(c.output, u * per_unit(red), c.count, out_aligned, sum);
    }
  }
}

}  // namespace xyl
