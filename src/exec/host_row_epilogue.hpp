// SPDX-License-Identifier: BSD-3-Clause
//
// The fused protocols' rows on host memory: from the fp32 sums to the outputs, and to the peers' workspaces, with
// the loops of host_row.hpp. The steps and their order are those of proto/fused_row.hpp; a row is this lane's
// alone, so a failed wait is known without asking.
#pragma once

#include "exec/host_reduction.hpp"
#include "exec/host_row.hpp"
#include "proto/fused_pull.hpp"

namespace xyl {

template <class T>
struct host_row_kind : fused_kind<portable_codec<T>, portable_quantiser, 0> {
  static constexpr bool has_rows = true;

  const host_row_functions* loops = nullptr;

  template <class S, class Call>
  void put_addend(S& s, const Call& c, const fused_work& w, std::uint64_t token, int first, int last,
                  std::uint64_t to) const {
    const std::uint64_t bytes = std::uint64_t{w.hidden} * sizeof(T);
    const std::byte* from = w.input + token * bytes;
    for (int k = first; k < last; ++k) {
      std::byte* const there = at<std::byte>(c, (c.rank + k) % c.ranks, to);
      if (k == first && w.experts != 0) {
        loops->mix(there, w, token);
        from = there;
      } else {
        stage(s, there, from, bytes);
      }
    }
  }

  // This rank's own addend lies in its input, unless it was made from experts' outputs.
  template <class Call, class From>
  void sum(const Call& c, const fused_work& w, std::uint64_t token, From from, float* x) const {
    const std::byte* sources[host_capacity];
    for (int p = 0; p < c.ranks; ++p)
      sources[p] = p == c.rank && w.experts == 0 ? w.input + token * w.hidden * sizeof(T)
                                                 : at<const std::byte>(c, c.rank, from(p));
    loops->sum(x, sources, c.ranks, w.hidden);
  }
  // Of what lies in all ranks' inputs.
  template <class Call, class Inputs>
  void sum_inputs(const Call& c, const fused_work& w, std::uint64_t token, const Inputs& input_of, float* x) const {
    const std::byte* sources[host_capacity];
    for (int p = 0; p < c.ranks; ++p) sources[p] = input_of[p] + token * w.hidden * sizeof(T);
    loops->sum(x, sources, c.ranks, w.hidden);
  }
  template <class Call>
  void decode(const Call& c, const fused_work& w, std::uint64_t from, float* x) const {
    const std::byte* const source = at<const std::byte>(c, c.rank, from);
    loops->sum(x, &source, 1, w.hidden);
  }
};

template <class S, class Call, class T, int W, int J>
class row_epilogue<S, Call, host_row_kind<T>, W, J> {
 public:
  using F = host_row_kind<T>;
  static constexpr int E = W * F::per_word;
  using values = float[J][E];

  row_epilogue(S& s, const Call& c, const fused_work& w, const row_team&, const F& f)
      : s_(s), c_(c), w_(w), loops_(*f.loops) {}

  bool finish(const row_place& at, row_stage stage, const row_inputs<F, W, J>& in, bool good, values& of_pieces) {
    if (!good) return false;
    float* const x = of_pieces[0];
    const std::size_t row_bytes = w_.hidden * sizeof(T);
    const auto put_rows = [&](std::byte* buffer, fused_wire what, auto make) {
      const bool send = at.sent == row_sent::as_bytes && w_.wire == what;
      put(at, buffer ? buffer + at.token * row_bytes : nullptr, send, row_bytes, make);
    };
    const bool adds = stage == row_stage::sum && w_.residual;
    const auto round = [&](std::byte* to) {
      loops_.round(x, adds ? w_.residual + at.token * row_bytes : nullptr, to, w_.hidden);
    };
    if (w_.pattern == fused_pattern::all_reduce) {
      put_rows(w_.output, fused_wire::residual, round);
      return true;
    }
    if (stage == row_stage::norm) {
      put_rows(w_.output, fused_wire::norm, round);
    } else {
      put_rows(w_.residual_out, fused_wire::residual, round);
      const float inverse_rms = inverse_root_mean_square(loops_.squares(x, w_.hidden), w_.inverse_hidden, w_.eps);
      put_rows(w_.output, fused_wire::norm, [&](std::byte* to) { loops_.norm(x, w_, inverse_rms, to); });
    }
    if (quantises(w_.pattern)) quantise(at, in.scale_of(w_), x);
    return true;
  }

  // Bytes from the beginning of the user's scales.
  std::uint64_t scale_offset(std::uint64_t token, unsigned number) const {
    if (w_.pattern == fused_pattern::nvfp4_swizzled)
      return swizzled_scale_offset(token, number, (w_.hidden + 63) / 64);
    return (token * w_.scales_of_row() + number) * w_.scale_bytes();
  }

 private:
  // make(to) makes a row, and writes it to `to` unless that is null. It is made once: in the user's buffer, or else
  // in the first peer's workspace, and copied from there.
  template <class Make>
  void put(const row_place& at, std::byte* buffer, bool send, std::uint64_t bytes, Make make) {
    std::byte* made = buffer;
    if (buffer || !send || c_.ranks == 1) make(buffer);
    if (!send) return;
    for (int k = 1; k < c_.ranks; ++k) {
      std::byte* const there = xyl::at<std::byte>(c_, (c_.rank + k) % c_.ranks, at.wire);
      if (made) {
        stage(s_, there, made, bytes);
      } else {
        make(there);
        made = there;
      }
    }
  }

  void quantise(const row_place& at, float scale, const float* x) {
    alignas(float) std::byte scales[most_hidden / 16];
    static_assert(sizeof scales >= most_hidden / 128 * sizeof(float));
    const std::uint64_t bytes = w_.quantised_bytes_of_row();
    const bool send = at.sent == row_sent::as_bytes && w_.wire == fused_wire::quantised;
    put(at, w_.quantised + at.token * bytes, send, bytes,
        [&](std::byte* to) { loops_.quantise(x, w_, scale, to, scales); });
    if (!w_.has_scales()) return;
    const std::uint64_t size = w_.scale_bytes(), all = w_.scales_of_row() * size;
    if (w_.pattern == fused_pattern::nvfp4_swizzled)
      for (unsigned i = 0; i < w_.scales_of_row(); ++i) w_.scales[scale_offset(at.token, i)] = scales[i];
    else
      s_.copy(w_.scales + scale_offset(at.token, 0), scales, all);
    for (int k = 1; send && k < c_.ranks; ++k)
      stage(s_, xyl::at<std::byte>(c_, (c_.rank + k) % c_.ranks, at.wire + bytes), scales, all);
  }

  S& s_;
  const Call& c_;
  const fused_work& w_;
  const host_row_functions& loops_;
};

}  // namespace xyl
