// SPDX-License-Identifier: BSD-3-Clause
//
// Two-shot allreduce with packets: share p of every rank goes to rank p, which reduces it in rank order and puts
// the result into everybody's memory. Two trips and no flag; a rank sends 4 (N - 1) / N n bytes, where one-shot
// packets are 2 (N - 1) n: with more than two ranks less is sent and less is polled for.
//
// In each region the units of the scattered share come first, those of the gathered one behind them: an owner may
// be a whole phase ahead of its peers.
#pragma once

#include "proto/addend.hpp"
#include "proto/packet.hpp"

namespace xyl {

// The message in units of one packet.
struct packet_shares {
  std::uint64_t share;  // units of a share
  std::uint64_t total;  // units of the message

  XYL_FN std::uint64_t unit(int p, std::uint64_t x) const { return share * static_cast<unsigned>(p) + x; }
  XYL_FN bool has(int p, std::uint64_t x) const { return unit(p, x) < total; }
};

// Loads unit x of the shares of N peers, rank + first and on, and puts them; all loads go before the first put.
template <int N, bool Whole, class S, class Call, class R>
XYL_FN void scatter_packets(S& s, const Call& c, const R&, const packet_shares& cut, std::uint64_t x, int first,
                            int ranks, bool aligned) {
  const epoch_t e = s.epoch();
  const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), x);
  std::uint64_t word[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = c.rank + first + i < ranks ? c.rank + first + i : c.rank + first + i - ranks;
    word[i] = first + i < ranks && cut.has(p, x) ? load_user<typename R::element, std::uint64_t, Whole>(
                                                       c.input, cut.unit(p, x) * R::per_word, c.count, aligned)
                                                 : 0;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = c.rank + first + i < ranks ? c.rank + first + i : c.rank + first + i - ranks;
    if (first + i < ranks && cut.has(p, x)) s.put(at<line>(c, p, to), word[i], packet_epoch(e));
  }
}

// Waits for unit x of the finished shares of ranks [first, first + N) and stores them.
template <int N, bool Whole, class S, class Call, class R>
XYL_FN bool gather_packets(S& s, const Call& c, const R&, const packet_shares& cut, std::uint64_t x, int first,
                           int ranks, bool aligned) {
  const unsigned slot = c.map.slot(s.epoch());
  const line* lines[N];
  std::uint64_t word[N] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int p = first + i;
    lines[i] = p != c.rank && p < ranks && cut.has(p, x)
                   ? at<const line>(c, c.rank, c.map.packet_offset(slot, static_cast<unsigned>(p), cut.share + x))
                   : nullptr;
  }
  if (!s.template get_all<N>(lines, packet_epoch(s.epoch()), word, waiting{first, phase::gather, N})) return false;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (lines[i] != nullptr)
      store_user<typename R::element, std::uint64_t, Whole>(c.output, cut.unit(first + i, x) * R::per_word, c.count,
                                                            aligned, word[i]);
  return true;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool two_shot_packet_block(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  const int ranks = R::ranks ? R::ranks : c.ranks;
  constexpr int batch = R::ranks ? R::ranks : packet_batch;
  read_turn(s);
  const epoch_t e = s.epoch();
  const bool in_aligned = is_aligned(c.input, 8), out_aligned = is_aligned(c.output, 8);
  const std::uint64_t total = units_of(c.count, R::per_word);
  const packet_shares cut{part_of(total, static_cast<unsigned>(ranks), 0).size(), total};
  const range mine = part_of_block(s, cut.share);

  put_headers(s, c);
  for (std::uint64_t x = mine.begin + s.lane(); x < mine.end; x += s.lanes()) {
    if constexpr (R::ranks != 0)
      scatter_packets<batch - 1, Whole>(s, c, red, cut, x, 1, ranks, in_aligned);
    else
      for (int k = 1; k < ranks; k += batch) scatter_packets<batch, Whole>(s, c, red, cut, x, k, ranks, in_aligned);
  }
  sent(s);

  // As in the one-shot form: the lanes agree once, after their first unit, and nothing is stored to the output
  // before. Results go on their way to the peers' workspaces at once: in a call that fails nobody reads them.
  if (!join(s)) return false;
  bool with_headers = units_bring_headers<R>(s, c);
  bool good = with_headers || check_headers(s, c);
  bool agreed = false;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed; first += s.lanes()) {
    const std::uint64_t x = first + s.lane();
    const bool has_data = x < mine.end && cut.has(c.rank, x);
    const std::uint64_t u = cut.unit(c.rank, x) * R::per_word;
    std::uint64_t sum = 0;
    typename R::accumulator acc[R::accumulators] = {};
    const std::uint64_t own =
        has_data ? load_user<T, std::uint64_t, Whole>(c.input, u, c.count, in_aligned) : std::uint64_t{0};
    good = reduce_unit(s, c, red, with_headers, good, has_data, x, own, acc);
    with_headers = false;
    if (good && has_data) {
      finish_word(c, red, u, acc);
      sum = red.encode(acc);
      const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), cut.share + x);
      if (good)
#pragma unroll
        for (int k = 1; k < ranks; ++k) {
          const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
          s.put(at<line>(c, p, to), sum, packet_epoch(e));
        }
    }
    if (!agreed) {
      if (!s.all(good)) return false;
      agreed = true;
      received(s);
    }
    if (good && has_data) store_user<T, std::uint64_t, Whole>(c.output, u, c.count, out_aligned, sum);
  }
  for (std::uint64_t x = mine.begin + s.lane(); x < mine.end; x += s.lanes())
    for (int p = 0; p < ranks && good; p += batch)
      good = gather_packets<batch, Whole>(s, c, red, cut, x, p, ranks, out_aligned);
  return good;
}

template <class S, class Call, class R>
XYL_FN bool two_shot_packet_allreduce(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  bool good = begin_early(s);
  if (good) {
    if (R::ranks != 0 && is_whole<T, std::uint64_t>(c.input, c.count) &&
        is_whole<T, std::uint64_t>(c.output, c.count)) [[likely]]
      good = two_shot_packet_block<true>(s, c, red);
    else
      good = two_shot_packet_block<false>(s, c, red);
  }
  s.leave();
  return good;
}

}  // namespace xyl
