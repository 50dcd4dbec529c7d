// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce in two shots of packets, for some rows among many ranks. Each row is cut into slices, one for
// each rank: whole groups of 32 pieces, so that every rank sums as much as any other, however few the rows are. A
// slice's owner adds the residual and sends on, as packets, what the row is then; and for each group the sum of its
// squares, which is what the others lack to norm the row by themselves: nobody waits for a whole row before the
// second trip, and no blocks need to meet. Packets can be awaited by any block, so all warps share in the sums, and
// all teams in the rows.
//
//   lines of (slot, source)    [source's part of this rank's slices][its own slices of all rows, summed]
//   of (slot, this rank)       [squares of all rows' groups, from all owners][its own slices, from itself]
//
// In the sum's rank order, and with the values of the other forms: the squares are added up in the same tree.
#pragma once

#include "proto/fused.hpp"

namespace xyl {

namespace two_shot_packets {

// How rows are cut. Rank p owns groups [p * groups, (p + 1) * groups), as far as a row has them.
struct slices {
  unsigned pieces, groups;  // of a row; of a slice
  unsigned stride;          // lines of a slice's row, and of a row's squares

  XYL_FN constexpr slices(unsigned pieces_of_row, int ranks)
      : pieces(pieces_of_row),
        groups((all_groups() + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks)),
        stride(smaller(groups * 32, whole_lines(pieces))) {
    if (stride < whole_lines(all_groups())) stride = whole_lines(all_groups());
  }

  XYL_FN constexpr unsigned all_groups() const { return (pieces + 31) / 32; }
  XYL_FN constexpr unsigned begin(int p) const { return smaller(static_cast<unsigned>(p) * groups, all_groups()); }
  XYL_FN constexpr unsigned groups_of(int p) const { return begin(p + 1) - begin(p); }
  XYL_FN constexpr int owner(unsigned piece) const { return static_cast<int>(piece / (groups * 32)); }
  // Of a piece of a row, in its owner's slice.
  XYL_FN constexpr std::uint64_t scattered(unsigned row, unsigned piece) const {
    return std::uint64_t{row} * stride + piece % (groups * 32);
  }
  XYL_FN constexpr std::uint64_t summed(unsigned rows, unsigned row, unsigned piece) const {
    return scattered(rows + row, piece);
  }
  XYL_FN constexpr std::uint64_t squares(unsigned row, unsigned group) const {
    return std::uint64_t{row} * stride + group;
  }
  // Of each (slot, source).
  XYL_FN constexpr std::uint64_t lines_of_row() const { return 2 * std::uint64_t{stride}; }

 private:
  static XYL_FN constexpr unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }
  static XYL_FN constexpr unsigned whole_lines(unsigned n) { return (n + 7) / 8 * 8; }
};

template <class F, class S, class Call>
class launch {
  static constexpr int E = F::per_word, J = pieces_of_lane<S, E>();
  // Rows whose lines a lane has under way together, in either direction.
  static constexpr int batch = J > 1 ? 1 : F::quantises ? 2 : 4;
  static constexpr unsigned worker_lanes = lanes_of_group<S>();
  static constexpr int worker_pieces = 32 / static_cast<int>(worker_lanes);
  // Eight peers' lines at once leave no registers for the quantiser.
  static constexpr bool sums_in_batches = F::quantises && F::ranks > packet_batch;

 public:
  XYL_FN launch(S& s, const Call& c, const fused_work& w)
      : s_(s),
        c_(c),
        w_(w),
        ranks_(F::ranks ? F::ranks : c.ranks),
        cut_(w.hidden / E, ranks_),
        team_(row_team::of(s, w, w.hidden / E)) {}

  XYL_FN bool run() {
    // What does not depend on peers is loaded before the epoch is known: the trips to memory overlap.
    row_inputs<F, 1, J> in;
    in.load(s_, w_, team_, w_.first, false);
    put_headers(s_, c_);
    scatter();
    sent(s_);
    bool good = join(s_);
    good = good && check_headers(s_, c_);
    good = sum(good);
    return gather(in, good);
  }

 private:
  XYL_FN line* line_at(int rank, int source, std::uint64_t number) const {
    return at<line>(c_, rank, c_.map.packet_offset(c_.map.slot(s_.epoch()), static_cast<unsigned>(source), number));
  }
  XYL_FN std::uint64_t own_word(unsigned row, unsigned piece) {
    return addend<F, 1>(s_, w_, w_.first + row, piece).word[0];
  }

  // f(n, row) for the rows of this team's next batch, `first` and on.
  template <class Each>
  XYL_FN void for_each_row(unsigned first, Each f) const {
#pragma unroll
    for (int n = 0; n < batch; ++n) {
      const unsigned row = first + static_cast<unsigned>(n) * team_.teams;
      if (row < w_.rows) f(n, row);
    }
  }

  // Each piece to the owner of its slice. Its own this rank loads when it sums them.
  XYL_FN void scatter() {
    for (unsigned first = team_.index; first < w_.rows; first += team_.teams * batch)
      for_each_piece<J>(s_, team_, [&](int, unsigned v) {
        const int p = cut_.owner(v);
        if (p == c_.rank) return;
        std::uint64_t word[batch];
        for_each_row(first, [&](int n, unsigned row) { word[n] = own_word(row, v); });
        for_each_row(first, [&](int n, unsigned row) {
          s_.put(line_at(p, c_.rank, cut_.scattered(row, v)), word[n], packet_epoch(s_.epoch()));
        });
      });
  }

  // This rank's slices. The lanes that see to a group come here together.
  XYL_FN bool sum(bool good) {
    const unsigned lane = s_.block() * s_.lanes() + s_.lane(), workers = s_.blocks() * s_.lanes() / worker_lanes;
    const unsigned groups = cut_.groups_of(c_.rank), begin = cut_.begin(c_.rank);
    for (unsigned n = lane / worker_lanes; n < w_.rows * groups; n += workers) {
      const unsigned row = n / groups, group = begin + n % groups;
      std::uint32_t leaf[worker_pieces] = {};
#pragma unroll
      for (int i = 0; i < worker_pieces; ++i) {
        const unsigned v = group * 32 + static_cast<unsigned>(i) * worker_lanes + lane % worker_lanes;
        if (v < cut_.pieces) good = sum_piece(row, v, good, leaf[i]);
      }
      if (w_.pattern == fused_pattern::all_reduce) continue;
      // Where a lane has failed its group's squares are not told, and the peers end by the poison.
      std::uint32_t squares = 0;
      if (!over_group<add_squares>(s_, good, leaf, squares)) continue;
      for (unsigned p = lane % worker_lanes; p < static_cast<unsigned>(ranks_); p += worker_lanes)
        s_.put(line_at(static_cast<int>(p), static_cast<int>(p), cut_.squares(row, group)), squares,
               packet_epoch(s_.epoch()));
    }
    return good;
  }

  XYL_FN bool sum_piece(unsigned row, unsigned v, bool good, std::uint32_t& squares) {
    const std::uint64_t own = own_word(row, v);
    piece<1> before{};
    if (w_.residual)
      before =
          load_piece<1>(s_, w_.residual + ((w_.first + row) * w_.hidden + std::uint64_t{v} * E) * F::element_bytes);
    float x[E];
    const std::uint64_t number = cut_.scattered(row, v);
    if constexpr (sums_in_batches) {
      for (int p = 0; p < F::ranks && good; p += packet_batch)
        good = reduce_packets<packet_batch, false>(s_, c_, F{}, p, ranks_, true, number, own, x);
    } else {
      good = reduce_unit(s_, c_, F{}, false, good, true, number, own, x);
    }
    if (!good) return false;
    if (w_.residual) {
      float r[E];
      decode_piece<typename F::codec>(before, r);
#pragma unroll
      for (int k = 0; k < E; ++k) x[k] = x[k] + r[k];
    }
    const piece<1> sum = round_piece<typename F::codec, 1>(x);
    const std::uint64_t to = cut_.summed(w_.rows, row, v);
    // The peers' first, this rank's last.
#pragma unroll
    for (int k = 1; k <= ranks_; ++k) {
      const int p = c_.rank + k < ranks_ ? c_.rank + k : c_.rank + k - ranks_;
      s_.put(line_at(p, c_.rank, to), sum.word[0], packet_epoch(s_.epoch()));
    }
    squares = float_bits(sum_of_squares(x));
    return true;
  }

  // All rows, from the slices' owners. Nothing is stored before the lanes of a block have agreed.
  XYL_FN bool gather(row_inputs<F, 1, J>& in, bool good) {
    row_epilogue<S, Call, F, 1, J> epilogue(s_, c_, w_, team_, F{});
    bool agreed = false;
    for (unsigned first = team_.index; first < w_.rows; first += team_.teams * batch) {
      std::uint64_t word[J][batch];
      for_each_piece<J>(s_, team_, [&](int j, unsigned v) {
        const int p = cut_.owner(v);
        const line* lines[batch] = {};
        for_each_row(first,
                     [&](int n, unsigned row) { lines[n] = line_at(c_.rank, p, cut_.summed(w_.rows, row, v)); });
        if (good)
          good = s_.template get_all<batch>(lines, packet_epoch(s_.epoch()), word[j], waiting{p, phase::gather});
      });
      std::uint32_t squares[batch] = {};
      if (w_.pattern != fused_pattern::all_reduce) {
        const line* of_row[batch] = {};
        for_each_row(first,
                     [&](int n, unsigned row) { of_row[n] = line_at(c_.rank, c_.rank, cut_.squares(row, 0)); });
        good = combine_told<add_squares>(s_, c_, of_row, cut_.all_groups(), good, squares);
      } else if (!agreed) {
        good = s_.all(good);
      }
      agreed = true;
      if (!good) return false;
      // Nothing of this launch is waited for after the last rows.
      if (first + team_.teams * batch >= w_.rows) received(s_);
      for_each_row(first, [&](int n, unsigned row) {
        float x[J][E];
        for_each_piece<J>(s_, team_,
                          [&](int j, unsigned) { decode_piece<typename F::codec>(piece<1>{{word[j][n]}}, x[j]); });
        good = good && epilogue.finish_agreed({row, w_.first + row}, row_stage::residual, squares[n], in, good, x);
      });
      if (!good) return false;
    }
    return agreed ? good : s_.all(good);
  }

  S& s_;
  const Call& c_;
  const fused_work& w_;
  const int ranks_;
  const slices cut_;
  const row_team team_;
};

}  // namespace two_shot_packets

template <class F, class S, class Call>
XYL_FN bool fused_two_shot_packet(S& s, const Call& c, const fused_work& w) {
  const bool good = begin_early(s) && two_shot_packets::launch<F, S, Call>(s, c, w).run();
  s.leave();
  return good;
}

}  // namespace xyl
