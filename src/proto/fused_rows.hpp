// SPDX-License-Identifier: BSD-3-Clause
//
// The second step of a fused call in two: the rows of a sum to which the residual was added, and which was rounded,
// become norms and what is quantised. Nobody waits for anybody, so a launch may have any number of blocks; each has
// whole rows. The values are those of the other forms: they share row_epilogue, or the functions under it.
#pragma once

#include "proto/fused_row.hpp"

namespace xyl {

// Norms alone. What a row and its weights are made of is on its way together: nothing is loaded under a condition,
// or behind the row's sum.
template <class F, int W, class S, class Call>
XYL_FN void norm_of_row(S& s, const Call& c, const fused_work& w, const row_team& t, std::uint64_t token) {
  using codec = typename F::codec;
  constexpr int E = W * F::per_word, J = pieces_of_lane<S, E>();
  const std::uint64_t begin = token * w.hidden * F::element_bytes;
  piece<W> row[J], weights[J];
#pragma unroll
  for (int j = 0; j < J; ++j)
    row[j] = load_piece<W>(s, w.input + begin + std::uint64_t{piece_or_other(s, t, j)} * 8 * W);
  if (!w.weight_is_float)
#pragma unroll
    for (int j = 0; j < J; ++j)
      weights[j] = load_piece<W>(s, w.weight + std::uint64_t{piece_or_other(s, t, j)} * 8 * W);

  std::uint32_t leaf[J] = {};
  for_each_piece<J>(s, t, [&](int j, unsigned) {
    float x[E];
    decode_piece<codec>(row[j], x);
    leaf[j] = float_bits(sum_of_squares(x));
  });
  std::uint32_t squares = 0;
  (void)row_combine<add_squares>(s, c, w, t, static_cast<unsigned>(token), 0, w.hidden / E, true, leaf, squares);
  const float inverse_rms = inverse_root_mean_square(bits_float(squares), w.inverse_hidden, w.eps);
  for_each_piece<J>(s, t, [&](int j, unsigned v) {
    float x[E], weight[E];
    decode_piece<codec>(row[j], x);
    if (w.weight_is_float)
      floats_of(load_piece<E / 2>(s, w.weight + std::uint64_t{v} * E * 4), weight);
    else
      decode_piece<codec>(weights[j], weight);
#pragma unroll
    for (int k = 0; k < E; ++k) x[k] = normalised(x[k], inverse_rms, w.gemma ? 1.0f + weight[k] : weight[k]);
    store_piece<W>(s, w.output + begin + std::uint64_t{v} * 8 * W, round_piece<codec, W>(x));
  });
}

// work.input: the rows, of which work.output may be the place too. There is no residual any more.
template <class F, int W, class S, class Call>
XYL_FN void fused_rows(S& s, const Call& c, const fused_work& w) {
  constexpr int E = W * F::per_word, J = pieces_of_lane<S, E>();
  const row_team t{s.block(), s.blocks(), 0, w.hidden / E};
  if constexpr (!F::quantises) {
    for (std::uint64_t token = t.index; token < w.tokens; token += t.teams) norm_of_row<F, W>(s, c, w, t, token);
  } else {
    row_epilogue<S, Call, F, W, J> epilogue(s, c, w, t, F{});
    for (std::uint64_t token = t.index; token < w.tokens; token += t.teams) {
      row_inputs<F, W, J> in;
      in.load(s, w, t, token, false);
      float x[J][E] = {};
      for_each_piece<J>(s, t, [&](int j, unsigned v) {
        decode_piece<typename F::codec>(
            load_piece<W>(s, w.input + (token * w.hidden + std::uint64_t{v} * E) * F::element_bytes), x[j]);
      });
      (void)epilogue.finish({static_cast<unsigned>(token), token}, row_stage::residual, in, true, x);
    }
  }
}

}  // namespace xyl
