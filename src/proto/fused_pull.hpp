// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce on registered inputs: rows are summed where they lie in all ranks' inputs (see pull.hpp), so
// nothing is written before it is finished. The bits are those of the other forms.
//
//   one-shot   every rank reads all rows of all inputs and finishes them for itself. Nobody's output is anybody's
//              input. At the end ranks meet again: only then may inputs be changed.
//   two-shot   each owner reads its rows in all inputs, finishes them, and sends on what makes the fewest bytes, as
//              in the two-shot form of bulk data. Whoever has a row's result from the owner's block of its own
//              index knows that this one is done with its input, and grids are equal on all ranks, so nothing is
//              left to wait for. An input may be an output: its rows are read by their owners alone, and nobody
//              overwrites others' rows before they are here.
#pragma once

#include "proto/fused.hpp"
#include "proto/pull.hpp"

namespace xyl {

// This block has heard of all ranks: their inputs may be read. The verdict is one of the whole block.
template <class S, class Call>
XYL_FN bool arrive_for_rows(S& s, const Call& c) {
  bool good = join(s);
  if (good) put_headers<true>(s, c);
  sent(s);
  good = s.all(good && check_headers<true>(s, c));
  if (good) received(s);
  return good;
}

// Exchanges the blocks' flags: the owners' rows are here, and they are done with this rank's input.
template <class S, class Call>
XYL_FN bool meet_owners(S& s, const Call& c) {
  post_all(s, c, flag_family::gather);
  return s.all(await_all(s, c, flag_family::gather, phase::gather));
}

template <class F, bool Shares, class S, class Call, class Inputs>
XYL_FN bool fused_pull_block(S& s, const Call& c, const fused_work& w, const Inputs& input_of, const F& f) {
  constexpr int E = 2 * F::per_word, J = pieces_of_lane<S, E>();
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const row_team t = row_team::of(s, w, w.hidden / E);
  const std::uint64_t row_bytes = std::uint64_t{w.hidden} * F::element_bytes;
  const std::uint64_t wire_bytes = F::quantises ? w.wire_row_bytes(F::element_bytes) : row_bytes;
  // Row k of this launch, of rank p's share if there are shares; false if there is none.
  const auto find = [&](int p, unsigned k, std::uint64_t& token) {
    token = (Shares ? static_cast<unsigned>(p) * w.share : 0) + w.first + k;
    return (!Shares || w.first + k < w.share) && token < w.tokens;
  };
  std::uint64_t token = 0;

  // What the first row needs beside the peers' inputs is on its way meanwhile.
  row_inputs<F, 2, J> in;
  const bool has_first = t.index < w.rows && find(c.rank, t.index, token);
  if (has_first) in.load(s, w, t, token, true);
  bool good = arrive_for_rows(s, c);
  const std::uint64_t place = Shares ? place_of(s, c, w.rows * wire_bytes) : 0;
  const auto gathered = [&](int p, unsigned k) {
    return c.map.bulk_offset(c.map.slot(s.epoch()), static_cast<unsigned>(p)) + place + k * wire_bytes;
  };

  row_epilogue<S, Call, F, 2, J> epilogue(s, c, w, t, f);
  // This rank's own rows, then the other owners': one text for both, since the epilogue is long.
#pragma unroll 1
  for (int step = 0; step < (Shares ? ranks : 1); ++step) {
    const bool is_own = !Shares || step == 0;
    const int p = c.rank + step < ranks ? c.rank + step : c.rank + step - ranks;
    if (step == 1 && good) good = meet_owners(s, c);
#pragma unroll 1
    for (unsigned k = t.index; k < w.rows; k += t.teams) {
      if (!find(p, k, token)) continue;
      if (F::quantises && Shares && !is_own && w.wire == fused_wire::quantised) {
        if (good) deliver_quantised<E>(s, c, w, t, epilogue, token, gathered(p, k));
        continue;
      }
      if (!is_own || k != t.index) in.load(s, w, t, token, is_own);
      float x[J][E];
      if constexpr (F::has_rows) {
        if (good && is_own) f.sum_inputs(c, w, token, input_of, x[0]);
        if (good && !is_own) f.decode(c, w, gathered(p, k), x[0]);
      } else if (good && is_own) {
        const auto load = [&](int q, unsigned v) {
          return load_peer_piece(s, input_of[q] + token * row_bytes + std::uint64_t{v} * 16);
        };
        sum_loaded<F>(s, c, t, load, x);
      } else if (good) {
        const std::byte* const from = at<const std::byte>(c, c.rank, gathered(p, k));
        for_each_piece<J>(s, t, [&](int j, unsigned v) {
          decode_piece<typename F::codec>(load_peer_piece(s, from + std::uint64_t{v} * 16), x[j]);
        });
      }
      row_place of_row{Shares ? k * static_cast<unsigned>(ranks) + static_cast<unsigned>(p) : k, token};
      if (Shares && is_own) {
        of_row.sent = row_sent::as_bytes;
        of_row.wire = gathered(p, k);
      }
      const row_stage others = w.wire == fused_wire::residual ? row_stage::residual : row_stage::norm;
      good = epilogue.finish(of_row, is_own ? row_stage::sum : others, in, good, x);
      if (!good) return false;
    }
  }
  return good && (Shares || depart_from_pull(s, c));
}

template <class F, class S, class Call, class Inputs>
XYL_FN bool fused_one_shot_pull(S& s, const Call& c, const fused_work& w, const Inputs& input_of, const F& f = {}) {
  const bool good = begin_early(s) && fused_pull_block<F, false>(s, c, w, input_of, f);
  s.leave();
  return good;
}

template <class F, class S, class Call, class Inputs>
XYL_FN bool fused_two_shot_pull(S& s, const Call& c, const fused_work& w, const Inputs& input_of, const F& f = {}) {
  const bool good = begin_early(s) && fused_pull_block<F, true>(s, c, w, input_of, f);
  s.leave();
  return good;
}

}  // namespace xyl
