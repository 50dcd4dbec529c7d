// SPDX-License-Identifier: BSD-3-Clause
//
// Two-shot allreduce with packets (see two_shot_packet.hpp) for many ranks and a block of many lanes: the lanes
// form groups, and each group sees to one peer (or every so-manieth), to which it puts and whose packets it awaits.
// What arrives is handed around in words that the block shares, and summed there in rank order. A lane that sees to
// eight peers in turn has so many addresses, stores and loads that a trip took it 3 us; in groups, a trip takes
// 0.6. The last lanes, in no group, see to the headers (header.hpp).
//
// Relies on, besides the vocabulary of space.hpp:
//   lanes_of_group(ranks)  how many lanes a group has
//   shared_words()         room for ranks * 2 * lanes_of_group() words of 8 bytes
#pragma once

#include "proto/addend.hpp"
#include "proto/header.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// Units that a lane has on the way at once.
inline constexpr int group_unroll = 2;

// Where a lane stands.
struct lane_group {
  unsigned lanes;   // of a group
  unsigned groups;  // as many as there are ranks, or as there is room for
  unsigned group;   // this lane's; from `groups` on it has no peer to see to
  unsigned member;  // of its group

  XYL_FN bool has_peers() const { return group < groups; }
  XYL_FN unsigned units() const { return lanes * group_unroll; }  // of a pass
  XYL_FN unsigned unit(int j) const { return member + static_cast<unsigned>(j) * lanes; }
};

template <class S>
XYL_FN lane_group group_of(const S& s, int ranks) {
  lane_group g;
  g.lanes = s.lanes_of_group(ranks);
  g.group = s.lane() / g.lanes;
  g.member = s.lane() - g.group * g.lanes;
  const unsigned most = s.lanes() > g.lanes ? (s.lanes() - 1) / g.lanes : 1;
  g.groups = static_cast<unsigned>(ranks) < most ? static_cast<unsigned>(ranks) : most;
  return g;
}

// A unit of the message, where it exists; the message has `total`.
template <bool Whole, class Call, class R>
XYL_FN std::uint64_t load_word(const Call& c, const R&, std::uint64_t u, std::uint64_t total, bool aligned) {
  return u < total
             ? load_user<typename R::element, std::uint64_t, Whole>(c.input, u * R::per_word, c.count, aligned)
             : 0;
}
template <bool Whole, class Call, class R>
XYL_FN void store_word(const Call& c, const R&, std::uint64_t u, std::uint64_t total, bool aligned,
                       std::uint64_t word) {
  if (u < total)
    store_user<typename R::element, std::uint64_t, Whole>(c.output, u * R::per_word, c.count, aligned, word);
}

// Waits for a lane's words of peer p, from packet `from` of its region on.
template <class S, class Call>
XYL_FN bool get_words(S& s, const Call& c, const lane_group& g, int p, std::uint64_t from, std::uint64_t left,
                      phase what, std::uint64_t (&word)[group_unroll]) {
  const unsigned slot = c.map.slot(s.epoch());
  const line* lines[group_unroll];
#pragma unroll
  for (int j = 0; j < group_unroll; ++j)
    lines[j] =
        g.unit(j) < left
            ? at<const line>(c, c.rank, c.map.packet_offset(slot, static_cast<unsigned>(p), from + g.unit(j)))
            : nullptr;
  return s.template get_all<group_unroll>(lines, packet_epoch(s.epoch()), word, waiting{p, what, 1});
}

// The sum of unit u of all ranks, in rank order, from words that lie `stride` apart.
template <class Call, class R>
XYL_FN std::uint64_t sum_of_words(const Call& c, const R& red, std::uint64_t u, const std::uint64_t* words,
                                  unsigned stride, int ranks) {
  typename R::accumulator acc[R::accumulators];
  red.decode(words[0], acc);
#pragma unroll
  for (int p = 1; p < ranks; ++p) {
    typename R::accumulator value[R::accumulators];
    red.decode(words[static_cast<unsigned>(p) * stride], value);
    red.accumulate(acc, value);
  }
  finish_word(c, red, u * R::per_word, acc);
  return red.encode(acc);
}

// Puts what is meant for this lane's peers, packets from `from` on; to the end of this block's part there are
// `left`. own(p, x) is the word of packet x for rank p.
template <class S, class Call, class Own>
XYL_FN void put_own(S& s, const Call& c, const lane_group& g, int ranks, std::uint64_t from, std::uint64_t left,
                    Own own) {
  if (!g.has_peers()) return;
  const epoch_t e = s.epoch();
  const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), from);
#pragma unroll 1
  for (int p = static_cast<int>(g.group); p < ranks; p += static_cast<int>(g.groups)) {
    if (p == c.rank) continue;
    std::uint64_t word[group_unroll];
#pragma unroll
    for (int j = 0; j < group_unroll; ++j) word[j] = g.unit(j) < left ? own(p, from + g.unit(j)) : 0;
    line* const lines = at<line>(c, p, to);
#pragma unroll
    for (int j = 0; j < group_unroll; ++j)
      if (g.unit(j) < left) s.put(lines + g.unit(j), word[j], packet_epoch(e));
  }
}

// One pass: g.units() packets of every rank, from `from` on, come into the shared words; to the end of this
// block's part there are `left`. The verdict is the block's.
template <class S, class Call, class Own>
XYL_FN bool collect_words(S& s, const Call& c, const lane_group& g, int ranks, std::uint64_t from,
                          std::uint64_t left, bool is_first, phase what, Own own) {
  bool good = true;
  if (is_first) {
    sent(s);
    if (!join(s)) return false;
    good = check_headers(s, c);
  }
  if (g.has_peers())
#pragma unroll 1
    for (int p = static_cast<int>(g.group); p < ranks && good; p += static_cast<int>(g.groups)) {
      std::uint64_t word[group_unroll];
      if (p == c.rank) {
#pragma unroll
        for (int j = 0; j < group_unroll; ++j) word[j] = g.unit(j) < left ? own(p, from + g.unit(j)) : 0;
      } else {
        good = get_words(s, c, g, p, from, left, what, word);
      }
      std::uint64_t* const shared = s.shared_words() + static_cast<unsigned>(p) * g.units();
#pragma unroll
      for (int j = 0; j < group_unroll; ++j)
        if (g.unit(j) < left) shared[g.unit(j)] = word[j];
    }
  // Nothing was stored to the output before, and now the shared words are complete.
  if (!s.all(good)) return false;
  if (is_first) received(s);
  return true;
}

template <bool Whole, class S, class Call, class R>
XYL_FN bool grouped_two_shot_block(S& s, const Call& c, const R& red) {
  const int ranks = R::ranks ? R::ranks : c.ranks;
  const bool in_aligned = is_aligned(c.input, 8), out_aligned = is_aligned(c.output, 8);
  const std::uint64_t total = units_of(c.count, R::per_word);
  const std::uint64_t share = part_of(total, static_cast<unsigned>(ranks), 0).size();
  const range mine = part_of_block(s, share);
  const lane_group g = group_of(s, ranks);
  const auto unit = [&](int p, std::uint64_t x) { return share * static_cast<unsigned>(p) + x; };
  const auto own = [&](int p, std::uint64_t x) { return load_word<Whole>(c, red, unit(p, x), total, in_aligned); };

  put_headers(s, c);
  // All shares go out before the first is awaited. Short shares are padded: every packet exists.
#pragma unroll 1
  for (std::uint64_t from = mine.begin; from < mine.end; from += g.units())
    put_own(s, c, g, ranks, from, mine.end - from, own);

  std::uint64_t from = mine.begin;
#pragma unroll 1
  do {
    const std::uint64_t left = mine.end - from;
    if (!collect_words(s, c, g, ranks, from, left, from == mine.begin, phase::scatter, own)) return false;
    // A sum takes the place of the first rank's word of its unit, which nobody else looks at.
    for (unsigned i = s.lane(); i < g.units() && i < left; i += s.lanes()) {
      const std::uint64_t sum =
          sum_of_words(c, red, unit(c.rank, from + i), s.shared_words() + i, g.units(), ranks);
      s.shared_words()[i] = sum;
      store_word<Whole>(c, red, unit(c.rank, from + i), total, out_aligned, sum);
    }
    s.sync();  // the sums are there for all groups
    put_own(s, c, g, ranks, share + from, left,
            [&](int, std::uint64_t x) { return s.shared_words()[x - share - from]; });
    from += g.units();
    if (from < mine.end) s.sync();  // the shared words are used again
  } while (from < mine.end);

  bool good = true;
#pragma unroll 1
  for (from = mine.begin; from < mine.end && g.has_peers(); from += g.units()) {
    const std::uint64_t left = mine.end - from;
#pragma unroll 1
    for (int p = static_cast<int>(g.group); p < ranks && good; p += static_cast<int>(g.groups)) {
      if (p == c.rank) continue;
      std::uint64_t word[group_unroll];
      good = get_words(s, c, g, p, share + from, left, phase::gather, word);
#pragma unroll
      for (int j = 0; j < group_unroll; ++j)
        if (good && g.unit(j) < left)
          store_word<Whole>(c, red, unit(p, from + g.unit(j)), total, out_aligned, word[j]);
    }
  }
  return good;
}

// Returns this lane's verdict, see packet_allreduce().
template <class S, class Call, class R>
XYL_FN bool grouped_two_shot_allreduce(S& s, const Call& c, const R& red) {
  using T = typename R::element;
  bool good = begin_early(s);
  read_turn(s);
  if (good) {
    // As in packet_allreduce().
    if (R::ranks != 0 && is_whole<T, std::uint64_t>(c.input, c.count) &&
        is_whole<T, std::uint64_t>(c.output, c.count)) [[likely]]
      good = grouped_two_shot_block<true>(s, c, red);
    else
      good = grouped_two_shot_block<false>(s, c, red);
  }
  s.leave();
  return good;
}

}  // namespace xyl
