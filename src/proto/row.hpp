// SPDX-License-Identifier: BSD-3-Clause
//
// What the lanes that share a row do together: the tree of the epilogue over the whole row, and the largest of a
// few neighbouring lanes. The text here serves every space; one whose lanes can hand each other values (a warp, a
// cluster of blocks) brings functions of its own with the same values:
//
//   row_combine<Op>(work, team, row, set, good, leaf, out)   see below
//   neighbours_largest(width, leaf)                          see below
//   has_warps, over_group<Op, Width>(leaf), combine_stored<Op>(values, count)   see below
//   row_scratch()   (other spaces with several lanes) room for a word per piece of a row, shared by the block's
//                   lanes
//
// A failed wait is one lane's knowledge. row_combine makes it the team's: it takes each lane's verdict, and its own
// is the same on all lanes of a block (of a cluster where the team is one), so that all leave a row together or
// none.
#pragma once

#include "proto/fused_work.hpp"
#include "proto/header.hpp"

namespace xyl {

// This block's team, and its part of each of the team's rows, in pieces.
struct row_team {
  unsigned index;  // among the launch's teams
  unsigned teams;
  unsigned begin, end;

  template <class S>
  static XYL_FN row_team of(const S& s, const fused_work& w, unsigned pieces) {
    // A space may know the number of teams.
    const auto teams = [&] {
      if constexpr (requires { s.teams(); })
        return s.teams();
      else
        return w.split == 1 ? s.blocks() : s.blocks() / w.split;
    };
    if (w.split == 1) return {s.block(), teams(), 0, pieces};
    const unsigned index = w.team_of(s.block()), begin = (s.block() - index * w.split) * w.pieces_of_block;
    const unsigned end = begin + w.pieces_of_block;
    return {index, teams(), begin < pieces ? begin : pieces, end < pieces ? end : pieces};
  }
};

// The most pieces of a row that a lane holds, for pieces of E elements.
template <class S, int E>
XYL_FN constexpr int pieces_of_lane() {
  if constexpr (requires { S::pieces_of_lane; })
    return S::pieces_of_lane;
  else
    return static_cast<int>(most_hidden) / E;
}

// For the pieces of a row that this lane holds: f(j, piece). Others exist but have no data.
template <int J, class S, class F>
XYL_FN void for_each_piece(const S& s, const row_team& t, F f) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    const unsigned v = t.begin + static_cast<unsigned>(j) * s.lanes() + s.lane();
    if (v < t.end)
      f(j, v);
    else if constexpr (J > 8)
      return;
  }
}

// The same piece, or for a lane that has none another one of the row: where loads without a condition, which are
// all on their way together, cost less than loads under conditions.
template <class S>
XYL_FN unsigned piece_or_other(const S& s, const row_team& t, int j) {
  const unsigned v = t.begin + static_cast<unsigned>(j) * s.lanes() + s.lane();
  return v < t.end ? v : t.end - 1;
}

// The parts of a team that is no cluster meet in lines of this rank's own workspace, one per group. `row` counts
// the rows of this launch, `set` the meetings in a row: no line is used twice in a launch, and the next launch of
// this slot comes after this one has ended.
template <class Op, class S, class Call>
XYL_FN bool combine_by_lines(S& s, const Call& c, const row_team& t, unsigned row, unsigned set, unsigned pieces,
                             const std::uint32_t* scratch, std::uint32_t& out) {
  const unsigned slot = c.map.slot(s.epoch());
  const auto line_of = [&](unsigned group) { return at_own<line>(c, c.map.team_offset(slot, row, set, group)); };
  for (unsigned g = t.begin / 32 + s.lane(); g * 32 < t.end; g += s.lanes()) {
    const unsigned first = g * 32 - t.begin, count = t.end - g * 32 < 32 ? t.end - g * 32 : 32;
    s.put(line_of(g), halving<Op>(scratch + first, count), packet_epoch(s.epoch()));
  }
  std::uint32_t groups[layout::team_groups];
  bool good = true;
  for (unsigned g = 0; g * 32 < pieces && good; ++g) {
    const line* const from[1] = {line_of(g)};
    std::uint64_t value[1] = {};
    good = s.template get_all<1>(from, packet_epoch(s.epoch()), value, waiting{c.rank, phase::team});
    groups[g] = static_cast<std::uint32_t>(value[0]);
  }
  if (good) out = halving<Op>(groups, (pieces + 31) / 32);
  return good;
}

// out: the tree over the row's pieces, of which this lane brings leaf[j] for the j-th it holds (0 where it has
// none). False if any lane's `good` is, or if the team did not meet.
template <class Op, int J, class S, class Call>
XYL_FN bool row_combine(S& s, const Call& c, const fused_work& w, const row_team& t, unsigned row, unsigned set,
                        unsigned pieces, bool good, const std::uint32_t (&leaf)[J], std::uint32_t& out) {
  if constexpr (requires { s.template row_combine<Op>(w, t, row, set, pieces, good, leaf, out); }) {
    return s.template row_combine<Op>(w, t, row, set, pieces, good, leaf, out);
  } else if constexpr (is_single_lane<S>) {
    if (good) out = halving<Op>(leaf, pieces);
    return good;
  } else {
    std::uint32_t* const scratch = s.row_scratch();
    for_each_piece<J>(s, t, [&](int j, unsigned v) { scratch[v - t.begin] = leaf[j]; });
    if (!s.all(good)) return false;  // and the scratch is filled
    if (w.split == 1)
      out = halving<Op>(scratch, pieces);
    else
      good = combine_by_lines<Op>(s, c, t, row, set, pieces, scratch, out);
    return s.all(good);  // and the scratch is free
  }
}

// The lanes that see to a group of `width` pieces together: as many of a warp, or else one.
template <class S>
XYL_FN constexpr unsigned lanes_of_group(unsigned width) {
  if constexpr (requires { S::has_warps; })
    return width;
  else
    return 1;
}

// The tree over a group's pieces, of which this lane brings those that it holds (0 where it has none).
template <class Op, unsigned Width, int N, class S>
XYL_FN std::uint32_t over_group(const S& s, const std::uint32_t (&leaf)[N]) {
  static_assert(N * lanes_of_group<S>(Width) == Width);
  if constexpr (N == 1)
    return s.template over_group<Op, Width>(leaf[0]);
  else
    return halving<Op>(leaf, N);
}

// The tree over values that peers have stored in this rank's workspace, 16-byte aligned.
template <class Op, class S>
XYL_FN std::uint32_t combine_stored(const S& s, const std::uint32_t* values, unsigned count) {
  if constexpr (requires { s.template combine_stored<Op>(values, count); })
    return s.template combine_stored<Op>(values, count);
  else
    return halving<Op>(values, count);
}

// leaf[j] becomes the largest of the aligned `width` neighbouring pieces (a power of two, at most 32) around it.
// All lanes come here.
template <int J, class S>
XYL_FN void neighbours_largest(S& s, const row_team& t, unsigned width, std::uint32_t (&leaf)[J]) {
  if constexpr (requires { s.neighbours_largest(width, leaf); }) {
    s.neighbours_largest(width, leaf);
  } else {
    const auto over = [&](const std::uint32_t* values, unsigned count) {
      for_each_piece<J>(s, t, [&](int j, unsigned v) {
        const unsigned first = (v - t.begin) / width * width;
        std::uint32_t largest = 0;
        for (unsigned i = first; i < first + width && i < count; ++i)
          largest = larger_magnitude::combine(largest, values[i]);
        leaf[j] = largest;
      });
    };
    if constexpr (is_single_lane<S>) {
      // In place: once its first value is the group's largest, the others' search finds it there.
      over(leaf, t.end - t.begin);
    } else {
      std::uint32_t* const scratch = s.row_scratch();
      for_each_piece<J>(s, t, [&](int j, unsigned v) { scratch[v - t.begin] = leaf[j]; });
      s.sync();
      over(scratch, t.end - t.begin);
      s.sync();
    }
  }
}

}  // namespace xyl
