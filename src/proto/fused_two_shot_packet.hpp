// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce in two shots of packets, for some rows among many ranks. Each row is cut into slices, one for
// each rank: whole groups of 32 pieces, so that every rank sums as much as any other, however few the rows are. A
// slice's owner adds the residual and sends on, as packets, what the row is then; and for each group the sum of its
// squares, which is what the others lack to norm the row by themselves: nobody waits for a whole row before the
// second trip, and no blocks need to meet.
//
//   lines of (slot, source)    [source's part of this rank's slices][its own slices of all rows, summed]
//   of (slot, this rank)       [squares of all rows' groups, from all owners][its own slices, from itself]
//
// In the sum's rank order, and with the values of the other forms: the squares are added up in the same tree.
#pragma once

#include "proto/fused.hpp"
#include "proto/row_slices.hpp"

namespace xyl {

namespace two_shot_packets {

// Lines of (slot, source), in rows of `stride`.
struct lines {
  row_slices cut;
  unsigned stride;

  XYL_FN constexpr lines(unsigned pieces, int ranks) : cut(pieces, ranks, 32), stride(whole(cut.all_groups())) {
    const unsigned longest = cut.slice() < pieces ? cut.slice() : pieces;
    if (stride < whole(longest)) stride = whole(longest);
  }

  // Piece x of a slice's row as it comes, and summed; the squares of a group of the row.
  XYL_FN constexpr std::uint64_t scattered(unsigned row, unsigned x) const {
    return std::uint64_t{row} * stride + x;
  }
  XYL_FN constexpr std::uint64_t summed(unsigned rows, unsigned row, unsigned x) const {
    return scattered(rows + row, x);
  }
  XYL_FN constexpr std::uint64_t squares(unsigned row, unsigned group) const { return scattered(row, group); }
  XYL_FN constexpr std::uint64_t of_row() const { return 2 * std::uint64_t{stride}; }

 private:
  static XYL_FN constexpr unsigned whole(unsigned n) { return (n + 7) / 8 * 8; }
};

template <class F, class S, class Call>
class launch {
  static constexpr int E = F::per_word, J = pieces_of_lane<S, E>();
  // Rows whose lines a lane has under way together. More is more code for every call, and code has to be fetched.
  static constexpr int batch = J > 1 || F::quantises ? 1 : 2;
  static constexpr unsigned worker_lanes = lanes_of_group<S>(32);
  static constexpr int worker_pieces = 32 / static_cast<int>(worker_lanes);
  static constexpr bool keeps_first = worker_pieces == 1;
  // Eight peers' lines at once leave no registers for the quantiser.
  static constexpr bool sums_in_batches = F::quantises && F::ranks > packet_batch;

 public:
  XYL_FN launch(S& s, const Call& c, const fused_work& w)
      : s_(s),
        c_(c),
        w_(w),
        ranks_(F::ranks ? F::ranks : c.ranks),
        at_(w.hidden / E, ranks_),
        team_(row_team::of(s, w, w.hidden / E)) {}

  XYL_FN bool run() {
    // What does not depend on peers is loaded before the epoch is known: the trips to memory overlap.
    row_inputs<F, 1, J> in;
    in.load(s_, w_, team_, w_.first, false);
    own first{};
    if (keeps_first && worker() < units()) first = own_at(worker(), 0);
    put_headers(s_, c_);
    for (unsigned n = worker(); n < units(); n += workers())
#pragma unroll
      for (int i = 0; i < worker_pieces; ++i) scatter(n, i);
    sent(s_);
    bool good = join(s_);
    good = good && check_headers(s_, c_);
    for (unsigned n = worker(); n < units(); n += workers()) good = sum(n, n == worker() ? first : own{}, good);
    return gather(in, good);
  }

 private:
  // What this rank adds to a piece.
  struct own {
    std::uint64_t word;
    piece<1> residual;
  };

  // A unit is the same group of the same row in all slices: what a warp sends to all peers, and then sums of what
  // theirs of the same number have sent. Neighbouring ones are different blocks', so that each has heard of its
  // peers' by then.
  XYL_FN unsigned units() const { return w_.rows * at_.cut.groups; }
  XYL_FN unsigned worker() const { return s_.lane() / worker_lanes * s_.blocks() + s_.block(); }
  XYL_FN unsigned workers() const { return s_.lanes() / worker_lanes * s_.blocks(); }
  XYL_FN unsigned row_of(unsigned n) const { return n / at_.cut.groups; }
  // In the slice, the i-th of this lane.
  XYL_FN unsigned piece_of(unsigned n, int i) const {
    return n % at_.cut.groups * 32 + static_cast<unsigned>(i) * worker_lanes + s_.lane() % worker_lanes;
  }

  XYL_FN line* line_at(int rank, int source, std::uint64_t number) const {
    return at<line>(c_, rank, c_.map.packet_offset(c_.map.slot(s_.epoch()), static_cast<unsigned>(source), number));
  }
  XYL_FN int rank_after(int k) const { return c_.rank + k < ranks_ ? c_.rank + k : c_.rank + k - ranks_; }

  XYL_FN own own_at(unsigned n, int i) {
    const unsigned v = at_.cut.begin(c_.rank) + piece_of(n, i);
    const std::uint64_t token = w_.first + row_of(n);
    own o{};
    if (v >= at_.cut.pieces) return o;
    o.word = addend<F, 1>(s_, w_, token, v).word[0];
    if (w_.residual)
      o.residual = load_piece<1>(s_, w_.residual + (token * w_.hidden + std::uint64_t{v} * E) * F::element_bytes);
    return o;
  }

  XYL_FN void scatter(unsigned n, int i) {
    const unsigned x = piece_of(n, i);
    const std::uint64_t token = w_.first + row_of(n), to = at_.scattered(row_of(n), x);
    constexpr int together = F::ranks > 1 ? F::ranks - 1 : 1;
    for (int base = 1; base < ranks_; base += together) {
      std::uint64_t word[together];
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const unsigned v = at_.cut.begin(rank_after(base + k)) + x;
        word[k] = v < at_.cut.pieces ? addend<F, 1>(s_, w_, token, v).word[0] : 0;
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const int p = rank_after(base + k);
        if (at_.cut.begin(p) + x < at_.cut.pieces)
          s_.put(line_at(p, c_.rank, to), word[k], packet_epoch(s_.epoch()));
      }
    }
  }

  // This rank's slice of a unit. The lanes of a group come here together.
  XYL_FN bool sum(unsigned n, const own& first, bool good) {
    std::uint32_t leaf[worker_pieces] = {};
#pragma unroll
    for (int i = 0; i < worker_pieces; ++i)
      if (at_.cut.begin(c_.rank) + piece_of(n, i) < at_.cut.pieces)
        good = sum_piece(row_of(n), piece_of(n, i), keeps_first && n == worker() ? first : own_at(n, i), good,
                         leaf[i]);
    // Whoever has data has heard of all peers' blocks of this number.
    if (good) received(s_);
    if (w_.pattern == fused_pattern::all_reduce) return good;
    // Where a lane has failed its group's squares are not told, and the peers end by the poison.
    const unsigned group = static_cast<unsigned>(c_.rank) * at_.cut.groups + n % at_.cut.groups;
    std::uint32_t squares = 0;
    if (!over_group<add_squares, 32>(s_, good, leaf, squares) || group >= at_.cut.all_groups()) return good;
    for (int p = static_cast<int>(s_.lane() % worker_lanes); p < ranks_; p += static_cast<int>(worker_lanes))
      s_.put(line_at(p, p, at_.squares(row_of(n), group)), squares, packet_epoch(s_.epoch()));
    return good;
  }

  XYL_FN bool sum_piece(unsigned row, unsigned x, const own& mine, bool good, std::uint32_t& squares) {
    float value[E];
    const std::uint64_t number = at_.scattered(row, x);
    if constexpr (sums_in_batches) {
      for (int p = 0; p < F::ranks && good; p += packet_batch)
        good = reduce_packets<packet_batch, false>(s_, c_, F{}, p, ranks_, true, number, mine.word, value);
    } else {
      good = reduce_unit(s_, c_, F{}, false, good, true, number, mine.word, value);
    }
    if (!good) return false;
    if (w_.residual) {
      float r[E];
      decode_piece<typename F::codec>(mine.residual, r);
#pragma unroll
      for (int k = 0; k < E; ++k) value[k] = value[k] + r[k];
    }
    const piece<1> sum = round_piece<typename F::codec, 1>(value);
    // The peers' first, this rank's last.
#pragma unroll
    for (int k = 1; k <= ranks_; ++k)
      s_.put(line_at(rank_after(k), c_.rank, at_.summed(w_.rows, row, x)), sum.word[0], packet_epoch(s_.epoch()));
    squares = float_bits(sum_of_squares(value));
    return true;
  }

  // All rows, from the slices' owners. Nothing is stored before the lanes of a block have agreed.
  XYL_FN bool gather(row_inputs<F, 1, J>& in, bool good) {
    row_epilogue<S, Call, F, 1, J> epilogue(s_, c_, w_, team_, F{});
    // Who is waited for: what this rank itself has summed comes last of all.
    const int owner = at_.cut.owner(piece_or_other(s_, team_, 0)),
              sender = owner == c_.rank ? rank_after(1) : owner;
    bool agreed = false;
    for (unsigned first = team_.index; first < w_.rows; first += team_.teams * batch) {
      const auto for_each_row = [&](auto f) {
#pragma unroll
        for (int n = 0; n < batch; ++n) {
          const unsigned row = first + static_cast<unsigned>(n) * team_.teams;
          if (row < w_.rows) f(n, row);
        }
      };
      const line* of_row[batch] = {};
      for_each_row([&](int n, unsigned row) { of_row[n] = line_at(c_.rank, c_.rank, at_.squares(row, 0)); });
      const auto line_of = [&](int j, int n) -> const line* {
        const unsigned v = team_.begin + static_cast<unsigned>(j) * s_.lanes() + s_.lane();
        if (v >= team_.end) return nullptr;
        const int p = at_.cut.owner(v);
        return line_at(c_.rank, p,
                       at_.summed(w_.rows, first + static_cast<unsigned>(n) * team_.teams, v - at_.cut.begin(p)));
      };
      // A sum alone has no squares.
      const unsigned groups = w_.pattern == fused_pattern::all_reduce ? 0 : at_.cut.all_groups();
      std::uint64_t word[J][batch] = {};
      std::uint32_t squares[batch] = {};
      good = get_told<add_squares, J>(s_, c_, line_of, of_row, groups, good, word, squares,
                                      waiting{sender, phase::gather, 1});
      agreed = true;
      if (!good) return false;
      for_each_row([&](int n, unsigned row) {
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
  const lines at_;
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
