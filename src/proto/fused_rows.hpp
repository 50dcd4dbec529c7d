// SPDX-License-Identifier: BSD-3-Clause
//
// The second step of a fused call in two: the rows of a sum to which the residual was added, and which was rounded,
// become norms and what is quantised. Nobody waits for anybody, so a launch may have any number of blocks; each has
// whole rows. The values are those of the other forms, which share row_epilogue.
#pragma once

#include "proto/fused_row.hpp"

namespace xyl {

// work.input: the rows. It may equal work.output.
template <class F, int W, class S, class Call>
XYL_FN void fused_rows(S& s, const Call& c, const fused_work& w) {
  constexpr int E = W * F::per_word, J = pieces_of_lane<S, E>();
  const row_team t{s.block(), s.blocks(), 0, w.hidden / E};
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

}  // namespace xyl
