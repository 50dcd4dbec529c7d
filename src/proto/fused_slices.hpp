// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce in two shots of bulk data, for many rows among many ranks. Each row is cut into slices, one
// for each rank, and a row is one block's on every rank: block b of all of them meets twice, as in an allreduce in
// two shots, and then has whole rows and the sums of squares of their groups, and norms them without a word to
// anybody. Where rows have owners instead (fused.hpp) few rows keep few blocks busy, and an owner's whole work lies
// between the two meetings.
//
//   region of (slot, source)  [source's part of this rank's slices][its own slices of all rows, summed]
//   of (slot, this rank)      [squares of all rows' groups, from all owners][its own slices, from itself]
//
// In the sum's rank order, and with the values of the other forms: the squares are added up in the same tree.
#pragma once

#include "proto/fused.hpp"

namespace xyl {

namespace two_shot_slices {

// Pieces of a group: half a warp's, since rows are short and there may be eight ranks. A subtree of the row's tree of
// squares, so a power of two.
inline constexpr unsigned width = 16;

// How rows are cut: a slice is whole groups, so that its owner can work out their squares. Rank p owns groups
// [p * groups, (p + 1) * groups), as far as a row has them.
struct row_slices {
  unsigned pieces, groups;  // of a row; of a slice

  XYL_FN constexpr row_slices(unsigned pieces_of_row, int ranks)
      : pieces(pieces_of_row),
        groups((all_groups() + static_cast<unsigned>(ranks) - 1) / static_cast<unsigned>(ranks)) {}

  XYL_FN constexpr unsigned all_groups() const { return (pieces + width - 1) / width; }
  // Pieces of a slice, and the first of rank p's; those past the row's end are none.
  XYL_FN constexpr unsigned slice() const { return groups * width; }
  XYL_FN constexpr unsigned begin(int p) const { return static_cast<unsigned>(p) * slice(); }
  XYL_FN constexpr int owner(unsigned piece) const { return static_cast<int>(piece / slice()); }
};

// Bytes of the regions.
struct places {
  row_slices cut;
  std::uint64_t stride;  // of a slice's row, and of a row's squares

  XYL_FN constexpr places(unsigned pieces, int ranks) : cut(pieces, ranks), stride(cut.slice() * 16u) {
    const unsigned squares = (cut.all_groups() + 3) / 4 * 16;
    if (stride < squares) stride = squares;
  }

  XYL_FN constexpr std::uint64_t scattered(unsigned row, unsigned x) const { return row * stride + x * 16u; }
  XYL_FN constexpr std::uint64_t summed(unsigned rows, unsigned row, unsigned x) const {
    return scattered(rows + row, x);
  }
  XYL_FN constexpr std::uint64_t squares(unsigned row, unsigned group) const { return row * stride + group * 4u; }
  XYL_FN constexpr std::uint64_t of_row() const { return 2 * stride; }
};

template <class F, class S, class Call>
class launch {
  static constexpr int E = 2 * F::per_word, J = pieces_of_lane<S, E>();
  static constexpr unsigned worker_lanes = lanes_of_group<S>(width);
  static constexpr int worker_pieces = static_cast<int>(width / worker_lanes);

 public:
  XYL_FN launch(S& s, const Call& c, const fused_work& w)
      : s_(s),
        c_(c),
        w_(w),
        ranks_(F::ranks ? F::ranks : c.ranks),
        at_(w.hidden / E, ranks_),
        team_(row_team::of(s, w, w.hidden / E)) {}

  XYL_FN bool run() {
    bool good = join(s_);
    if (good) put_headers(s_, c_);
    for (unsigned n = worker(); n < units() && good; n += workers())
#pragma unroll
      for (int i = 0; i < worker_pieces; ++i) scatter(n, i);
    good = good && exchange_first_phase(s_, c_, flag_family::scatter, phase::scatter);
    if (!good) return false;
    for (unsigned n = worker(); n < rounds(); n += workers()) sum(n);
    post_all(s_, c_, flag_family::gather);
    good = s_.all(await_all(s_, c_, flag_family::gather, phase::gather));
    row_epilogue<S, Call, F, 2, J> epilogue(s_, c_, w_, team_, F{});
    row_inputs<F, 2, J> in;
#pragma unroll 1
    for (unsigned row = s_.block(); row < w_.rows && good; row += s_.blocks()) good = take(row, in, epilogue);
    return good;
  }

 private:
  // A unit is a group of one of this block's rows, the same of all slices.
  XYL_FN unsigned units() const {
    return w_.rows > s_.block() ? ((w_.rows - 1 - s_.block()) / s_.blocks() + 1) * at_.cut.groups : 0;
  }
  // The same with whole warps.
  XYL_FN unsigned rounds() const { return (units() + 1) / 2 * 2; }
  XYL_FN unsigned worker() const { return s_.lane() / worker_lanes; }
  XYL_FN unsigned workers() const { return s_.lanes() / worker_lanes; }
  XYL_FN unsigned row_of(unsigned n) const { return s_.block() + n / at_.cut.groups * s_.blocks(); }
  // In the slice, the i-th of this lane.
  XYL_FN unsigned piece_of(unsigned n, int i) const {
    return n % at_.cut.groups * width + static_cast<unsigned>(i) * worker_lanes + s_.lane() % worker_lanes;
  }

  // In rank's workspace, what is `source`'s.
  XYL_FN std::byte* place(int rank, int source, std::uint64_t offset) const {
    return at<std::byte>(c_, rank,
                         c_.map.bulk_offset(c_.map.slot(s_.epoch()), static_cast<unsigned>(source)) + offset);
  }
  XYL_FN int rank_after(int k) const { return c_.rank + k < ranks_ ? c_.rank + k : c_.rank + k - ranks_; }
  XYL_FN piece<2> own_at(unsigned row, unsigned v) { return addend<F, 2>(s_, w_, w_.first + row, v); }

  XYL_FN void scatter(unsigned n, int i) {
    const unsigned x = piece_of(n, i), row = row_of(n);
    constexpr int together = F::ranks > 1 ? F::ranks - 1 : 1;
    for (int base = 1; base < ranks_; base += together) {
      piece<2> data[together];
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const unsigned v = at_.cut.begin(rank_after(base + k)) + x;
        data[k] = v < at_.cut.pieces ? own_at(row, v) : piece<2>{};
      }
#pragma unroll
      for (int k = 0; k < together; ++k) {
        const int p = rank_after(base + k);
        if (at_.cut.begin(p) + x < at_.cut.pieces)
          s_.store16(reinterpret_cast<unit16*>(place(p, c_.rank, at_.scattered(row, x))), unit_of(data[k]));
      }
    }
  }

  // This rank's slice of a unit, or no unit; the lanes of a group come here together.
  XYL_FN void sum(unsigned n) {
    const bool has_unit = n < units();
    const unsigned row = row_of(n);
    std::uint32_t leaf[worker_pieces] = {};
#pragma unroll
    for (int i = 0; i < worker_pieces; ++i)
      if (has_unit && at_.cut.begin(c_.rank) + piece_of(n, i) < at_.cut.pieces)
        leaf[i] = sum_piece(row, piece_of(n, i));
    const std::uint32_t squares = over_group<add_squares, width>(s_, leaf);
    const unsigned group = static_cast<unsigned>(c_.rank) * at_.cut.groups + n % at_.cut.groups;
    if (!has_unit || group >= at_.cut.all_groups()) return;
    for (int p = static_cast<int>(s_.lane() % worker_lanes); p < ranks_; p += static_cast<int>(worker_lanes))
      store_bits<4>(place(p, p, at_.squares(row, group)), squares);
  }

  // Returns its squares.
  XYL_FN std::uint32_t sum_piece(unsigned row, unsigned x) {
    const unsigned v = at_.cut.begin(c_.rank) + x;
    const std::uint64_t of_row = (w_.first + row) * w_.hidden;
    float value[1][E] = {};
    sum_in_rank_order<F, 1>(
        ranks_,
        [&](int p, int) {
          return p == c_.rank ? own_at(row, v) : load_peer_piece(s_, place(c_.rank, p, at_.scattered(row, x)));
        },
        value);
    if (w_.residual) {
      float r[E];
      decode_piece<typename F::codec>(
          load_piece<2>(s_, w_.residual + (of_row + std::uint64_t{v} * E) * F::element_bytes), r);
#pragma unroll
      for (int e = 0; e < E; ++e) value[0][e] = value[0][e] + r[e];
    }
    const unit16 sum = unit_of(round_piece<typename F::codec, 2>(value[0]));
#pragma unroll
    for (int k = 1; k <= ranks_; ++k)
      s_.store16(reinterpret_cast<unit16*>(place(rank_after(k), c_.rank, at_.summed(w_.rows, row, x))), sum);
    return float_bits(sum_of_squares(value[0]));
  }

  // A row, from the slices' owners.
  template <class Epilogue>
  XYL_FN bool take(unsigned row, row_inputs<F, 2, J>& in, Epilogue& epilogue) {
    in.load(s_, w_, team_, w_.first + row, false);
    float x[J][E];
    piece<2> data[J];
#pragma unroll
    for (int j = 0; j < J; ++j) {
      if (J > 8 && team_.begin + static_cast<unsigned>(j) * s_.lanes() + s_.lane() >= team_.end) break;
      const unsigned v = piece_or_other(s_, team_, j);
      const int p = at_.cut.owner(v);
      data[j] = load_peer_piece(s_, place(c_.rank, p, at_.summed(w_.rows, row, v - at_.cut.begin(p))));
    }
    std::uint32_t squares = 0;
    if (w_.pattern != fused_pattern::all_reduce)
      squares = combine_stored<add_squares>(
          s_, reinterpret_cast<const std::uint32_t*>(place(c_.rank, c_.rank, at_.squares(row, 0))),
          at_.cut.all_groups());
    for_each_piece<J>(s_, team_, [&](int j, unsigned) { decode_piece<typename F::codec>(data[j], x[j]); });
    return epilogue.finish_agreed({row, w_.first + row}, row_stage::residual, squares, in, true, x);
  }

  S& s_;
  const Call& c_;
  const fused_work& w_;
  const int ranks_;
  const places at_;
  const row_team team_;
};

}  // namespace two_shot_slices

template <class F, class S, class Call>
XYL_FN bool fused_two_shot_slices(S& s, const Call& c, const fused_work& w) {
  const bool good = begin_early(s) && two_shot_slices::launch<F, S, Call>(s, c, w).run();
  s.leave();
  return good;
}

}  // namespace xyl
