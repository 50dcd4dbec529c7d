// SPDX-License-Identifier: BSD-3-Clause
//
// One row of a fused call, from the fp32 sums that the lanes of a team hold to the outputs. Which operations in
// which order is in epilogue.hpp and quantise.hpp; this text spreads them over lanes and stores the results: in
// this rank's buffers, and, if it is the row's owner in the two-shot form, in the peers' workspaces too.
//
// Nothing is stored before the verdict of the whole team is known.
#pragma once

#include "proto/reduction.hpp"
#include "proto/row.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

// What kernels are instantiated for. Mixes, Quantises: whether it can make its input from experts' outputs, and
// quantise; what is left out need not be fetched.
template <class Codec, class Quantiser, int Ranks, bool Mixes = true, bool Quantises = true>
struct fused_kind : reduction<Codec, operation::sum, Ranks> {
  using quantiser = Quantiser;
  static constexpr bool mixes = Mixes, quantises = Quantises;
  // Where a single lane has the whole row, a kind may bring loops of its own over it, with the same values. It then
  // specialises row_epilogue, and has functions for the rest:
  //
  //   put_addend(s, c, w, token, first, last, to)   this rank's addend, at `to` in the workspaces of the ranks
  //                                                 c.rank + k, first <= k < last
  //   sum(c, w, token, from, x)                     of what all ranks have put at from(rank) in this one's
  //   sum_inputs(c, w, token, input_of, x)          of the row in all ranks' inputs
  //   decode(c, w, from, x)                         what lies there at `from`
  static constexpr bool has_rows = false;
  static constexpr int element_bytes = static_cast<int>(sizeof(typename Codec::element));
};

// W words of 8 bytes: a piece as it lies in memory, 8- or 16-byte aligned.
template <int W>
struct piece {
  std::uint64_t word[W];
};

template <int W, class S>
XYL_FN piece<W> load_piece(const S& s, const std::byte* from) {
  piece<W> p;
  if constexpr (W % 2 == 0) {
#pragma unroll
    for (int i = 0; i < W / 2; ++i) {
      const unit16 u = s.load16(reinterpret_cast<const unit16*>(from) + i);
      p.word[2 * i] = u.word[0] | std::uint64_t{u.word[1]} << 32;
      p.word[2 * i + 1] = u.word[2] | std::uint64_t{u.word[3]} << 32;
    }
  } else {
    static_assert(W == 1);
    p.word[0] = reinterpret_cast<const overlay<std::uint64_t>*>(from)->word;
  }
  return p;
}

template <int W>
XYL_FN unit16 unit_of(const piece<W>& p) {
  return {{static_cast<std::uint32_t>(p.word[0]), static_cast<std::uint32_t>(p.word[0] >> 32),
           static_cast<std::uint32_t>(p.word[W - 1]), static_cast<std::uint32_t>(p.word[W - 1] >> 32)}};
}

template <int W, class S>
XYL_FN void store_piece(S& s, std::byte* to, const piece<W>& p) {
  if constexpr (W == 2)
    s.store16(reinterpret_cast<unit16*>(to), unit_of(p));
  else
    reinterpret_cast<overlay<std::uint64_t>*>(to)->word = p.word[0];
}

// Fewer bytes than a unit: the low Bytes of `bits`.
template <int Bytes>
XYL_FN void store_bits(std::byte* to, std::uint64_t bits) {
  if constexpr (Bytes == 8)
    reinterpret_cast<overlay<std::uint64_t>*>(to)->word = bits;
  else if constexpr (Bytes == 4)
    reinterpret_cast<overlay<std::uint32_t>*>(to)->word = static_cast<std::uint32_t>(bits);
  else if constexpr (Bytes == 2)
    reinterpret_cast<overlay<std::uint16_t>*>(to)->word = static_cast<std::uint16_t>(bits);
  else
    *to = static_cast<std::byte>(bits);
}

template <class Codec, int W, int E>
XYL_FN void decode_piece(const piece<W>& p, float (&out)[E]) {
  static_assert(E == W * Codec::per_word);
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float part[Codec::per_word];
    Codec::decode(p.word[i], part);
#pragma unroll
    for (int k = 0; k < Codec::per_word; ++k) out[i * Codec::per_word + k] = part[k];
  }
}

// Rounds x to the type and keeps what was rounded.
template <class Codec, int W, int E>
XYL_FN piece<W> round_piece(float (&x)[E]) {
  piece<W> p;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    float part[Codec::per_word];
#pragma unroll
    for (int k = 0; k < Codec::per_word; ++k) part[k] = x[i * Codec::per_word + k];
    p.word[i] = Codec::encode(part);
  }
  decode_piece<Codec>(p, x);
  return p;
}

// Of fp32, as they lie in memory.
template <int W, int E>
XYL_FN void floats_of(const piece<W>& p, float (&out)[E]) {
  static_assert(E == 2 * W);
#pragma unroll
  for (int k = 0; k < E; ++k) out[k] = bits_float(static_cast<std::uint32_t>(p.word[k / 2] >> 32 * (k % 2)));
}

// What a row needs beside its sums. A lane with one piece loads residual and weight before the wait for the peers;
// with up to four, the residual too between two ranks that do not quantise. Else registers are short, and each is
// loaded where it is used; the weight is in the first-level cache after a block's first row.
template <class F, int W, int J>
struct row_inputs {
  static constexpr int E = W * F::per_word;
  static constexpr bool early = J == 1, keeps_residual = J <= (F::quantises || F::ranks != 2 ? 1 : 4);

  static constexpr bool keeps_scale = F::quantises && J == 1;

  piece<W> residual[keeps_residual ? J : 1];
  piece<E / 2> weight;  // room for fp32
  float scale = 1;

  template <class S>
  XYL_FN void load(S& s, const fused_work& w, const row_team& t, std::uint64_t token, bool with_residual) {
    if constexpr (keeps_residual)
      if (with_residual && w.residual)
#pragma unroll
        for (int j = 0; j < J; ++j) residual[j] = residual_at(s, w, token, piece_or_other(s, t, j));
    if constexpr (early)
      if (w.pattern != fused_pattern::all_reduce) weight = weight_at(s, w, piece_or_other(s, t, 0));
    if constexpr (keeps_scale) scale = scale_at(w);
  }
  template <class S>
  XYL_FN void residual_of(S& s, const fused_work& w, std::uint64_t token, int j, unsigned v,
                          float (&out)[E]) const {
    decode_piece<typename F::codec>(keeps_residual ? residual[keeps_residual ? j : 0] : residual_at(s, w, token, v),
                                    out);
  }
  template <class S>
  XYL_FN void weight_of(S& s, const fused_work& w, unsigned v, float (&out)[E]) const {
    const piece<E / 2> raw = early ? weight : weight_at(s, w, v);
    if (w.weight_is_float) {
      floats_of(raw, out);
    } else {
      piece<W> own;
#pragma unroll
      for (int i = 0; i < W; ++i) own.word[i] = raw.word[i];
      decode_piece<typename F::codec>(own, out);
    }
    if (w.gemma)
#pragma unroll
      for (int k = 0; k < E; ++k) out[k] = 1.0f + out[k];
  }

  XYL_FN float scale_of(const fused_work& w) const { return keeps_scale ? scale : scale_at(w); }

 private:
  static XYL_FN float scale_at(const fused_work& w) { return w.scale ? *w.scale : 1.0f; }
  template <class S>
  static XYL_FN piece<W> residual_at(S& s, const fused_work& w, std::uint64_t token, unsigned v) {
    return load_piece<W>(s, w.residual + (token * w.hidden + v * E) * F::element_bytes);
  }
  template <class S>
  static XYL_FN piece<E / 2> weight_at(S& s, const fused_work& w, unsigned v) {
    if (w.weight_is_float) return load_piece<E / 2>(s, w.weight + std::uint64_t{v} * E * 4);
    const piece<W> own = load_piece<W>(s, w.weight + std::uint64_t{v} * E * F::element_bytes);
    piece<E / 2> raw{};
#pragma unroll
    for (int i = 0; i < W; ++i) raw.word[i] = own.word[i];
    return raw;
  }
};

// What the values of a row are already.
enum class row_stage : std::uint8_t { sum, residual, norm };

// How an owner sends a finished row to the peers.
enum class row_sent : std::uint8_t {
  not_at_all,
  as_bytes,   // what fused_work::wire says, to offset `wire` of their workspaces
  as_packets  // everything that they keep: the norm (or sum) to the lines from `wire` on, the residual to others
};

struct row_place {
  unsigned number;      // in this launch: no two rows that a team finishes have the same
  std::uint64_t token;  // in the user's buffers
  row_sent sent = row_sent::not_at_all;
  std::uint64_t wire = 0, wire_of_residual = 0;
};

template <class S, class Call, class F, int W, int J>
class row_epilogue {
 public:
  static constexpr int E = W * F::per_word;
  using values = float[J][E];

  XYL_FN row_epilogue(S& s, const Call& c, const fused_work& w, const row_team& t, const F&)
      : s_(s), c_(c), w_(w), t_(t), pieces_(w.hidden / E) {}

  // Finishes a row whose values are at `stage`. All lanes of the team come here, also if `good` is false; false if
  // it is for any of them.
  XYL_FN bool finish(const row_place& at, row_stage stage, row_inputs<F, W, J>& in, bool good, values& x) {
    if (good && stage == row_stage::sum)
      for_each([&](int j, unsigned v) {
        if (w_.residual) {
          float r[E];
          in.residual_of(s_, w_, at.token, j, v, r);
#pragma unroll
          for (int k = 0; k < E; ++k) x[j][k] = x[j][k] + r[k];
        }
        (void)round_piece<typename F::codec, W>(x[j]);
      });
    // Each text that stores a row is there once: with the pieces of a lane unrolled it is long.
    const bool ends_at_sum = w_.pattern == fused_pattern::all_reduce;
    std::uint32_t squares = 0;
    if (ends_at_sum || stage != row_stage::norm) {
      if (!(ends_at_sum ? s_.all(good) : sum_squares(at, good, x, squares))) return false;
    } else if (!F::quantises || w_.pattern != fused_pattern::fp8_per_token) {
      if (!s_.all(good)) return false;  // else the search for the largest brings the verdict
    }
    return finish_agreed(at, stage, squares, in, good, x);
  }

  // The same from where the team has agreed on the sum of a row's squares, which is all there is to agree on: but
  // for one scale of the whole row, for whose sake all lanes of the team come here.
  XYL_FN bool finish_agreed(const row_place& at, row_stage stage, std::uint32_t squares, row_inputs<F, W, J>& in,
                            bool good, values& x) {
    const bool ends_at_sum = w_.pattern == fused_pattern::all_reduce;
    if (ends_at_sum || stage != row_stage::norm) {
      put_rows(at, ends_at_sum ? w_.output : w_.residual_out, fused_wire::residual, x);
      if (ends_at_sum) return true;
      const float inverse_rms = inverse_root_mean_square(bits_float(squares), w_.inverse_hidden, w_.eps);
      for_each([&](int j, unsigned v) {
        float weight[E];
        in.weight_of(s_, w_, v, weight);
#pragma unroll
        for (int k = 0; k < E; ++k) x[j][k] = normalised(x[j][k], inverse_rms, weight[k]);
        (void)round_piece<typename F::codec, W>(x[j]);
      });
    }
    const bool is_quantised = F::quantises && quantises(w_.pattern);
    // Scales first: what a value is multiplied with, and what is stored for it.
    std::uint32_t largest[J] = {};
    if constexpr (F::quantises)
      if (is_quantised && !find_largest(at, good, x, largest)) return false;
    put_rows(at, w_.output, fused_wire::norm, x);
    if constexpr (F::quantises)
      if (is_quantised) quantise(at, in.scale_of(w_), largest, x);
    return true;
  }

 private:
  template <class Each>
  XYL_FN void for_each(Each f) {
    for_each_piece<J>(s_, t_, f);
  }

  XYL_FN bool sum_squares(const row_place& at, bool good, const values& x, std::uint32_t& out) {
    std::uint32_t leaf[J] = {};
    if (good) for_each([&](int j, unsigned) { leaf[j] = float_bits(sum_of_squares(x[j])); });
    return row_combine<add_squares>(s_, c_, w_, t_, at.number, 0, pieces_, good, leaf, out);
  }

  // To a buffer of the user's, if there is one, and over the wire, if this is what goes there.
  XYL_FN void put_rows(const row_place& at, std::byte* buffer, fused_wire what, const values& x) {
    const bool send = at.sent == row_sent::as_bytes && w_.wire == what;
    // Without a norm the sum takes its place. The residual goes only to lines of its own.
    const bool is_second = what == fused_wire::residual && w_.pattern != fused_pattern::all_reduce;
    const bool put = W == 1 && at.sent == row_sent::as_packets && (!is_second || at.wire_of_residual != at.wire);
    if (buffer == nullptr && !send && !put) return;
    for_each([&](int j, unsigned v) {
      float same[E];
#pragma unroll
      for (int k = 0; k < E; ++k) same[k] = x[j][k];
      const piece<W> p = round_piece<typename F::codec, W>(same);  // exact: x was rounded
      const std::uint64_t inside = std::uint64_t{v} * E * F::element_bytes;
      if (put) put_packets((is_second ? at.wire_of_residual : at.wire) + v, p.word[0]);
      if (buffer) store_piece<W>(s_, buffer + at.token * w_.hidden * F::element_bytes + inside, p);
      if (send) to_peers(at, inside, [&](std::byte* to) { store_piece<W>(s_, to, p); });
    });
  }

  XYL_FN void put_packets(std::uint64_t number, std::uint64_t word) {
    const int ranks = F::ranks ? F::ranks : c_.ranks;
    const std::uint64_t to = c_.map.packet_offset(c_.map.slot(s_.epoch()), static_cast<unsigned>(c_.rank), number);
#pragma unroll
    for (int k = 1; k < ranks; ++k) {
      const int p = c_.rank + k < ranks ? c_.rank + k : c_.rank + k - ranks;
      s_.put(xyl::at<line>(c_, p, to), word, packet_epoch(s_.epoch()));
    }
  }

  template <class Store>
  XYL_FN void to_peers(const row_place& at, std::uint64_t inside, Store store) {
    for (int k = 1; k < c_.ranks; ++k) {
      const int p = c_.rank + k < c_.ranks ? c_.rank + k : c_.rank + k - c_.ranks;
      store(xyl::at<std::byte>(c_, p, at.wire + inside));
    }
  }

  // Of a row, a group, or nothing at all, as the pattern has it; all lanes come here.
  XYL_FN bool find_largest(const row_place& at, bool good, const values& x, std::uint32_t (&largest)[J]) {
    if (good && w_.pattern != fused_pattern::fp8_static)
      for_each([&](int j, unsigned) { largest[j] = largest_magnitude(x[j]); });
    if (w_.pattern == fused_pattern::fp8_per_token) {
      std::uint32_t of_row = 0;
      if (!row_combine<larger_magnitude>(s_, c_, w_, t_, at.number, 1, pieces_, good, largest, of_row))
        return false;
#pragma unroll
      for (int j = 0; j < J; ++j) largest[j] = of_row;
    } else if (const unsigned width = scale_width(w_.pattern)) {
      neighbours_largest(s_, t_, width / E, largest);
    }
    return true;
  }

  XYL_FN void quantise(const row_place& at, float scale, const std::uint32_t (&largest)[J], const values& x) {
    const bool send = at.sent == row_sent::as_bytes && w_.wire == fused_wire::quantised;
    for_each([&](int j, unsigned v) {
      std::uint32_t stored = 0;
      float multiplier;
      if (is_nvfp4(w_.pattern)) {
        const nvfp4_scale of = nvfp4_scale_of(scale, largest[j]);
        stored = of.stored;
        multiplier = of.multiplier;
      } else {
        const float of = w_.pattern == fused_pattern::fp8_static ? scale : fp8_scale(largest[j]);
        stored = float_bits(of);
        multiplier = 1.0f / of;
      }
      std::uint64_t bits = 0;
      const bool nvfp4 = is_nvfp4(w_.pattern);
#pragma unroll
      for (int k = 0; k < E; k += 2) {
        const float low = x[j][k] * multiplier, high = x[j][k + 1] * multiplier;
        if (nvfp4)
          bits |= std::uint64_t{F::quantiser::e2m1x2(low, high)} << (4 * k);
        else
          bits |= std::uint64_t{F::quantiser::e4m3x2(low, high)} << (8 * k);
      }
      const std::uint64_t inside = std::uint64_t{v} * E / (nvfp4 ? 2 : 1);
      const auto store = [&](std::byte* to) {
        if (nvfp4)
          store_bits<E / 2>(to, bits);
        else
          store_bits<E>(to, bits);
      };
      store(w_.quantised + at.token * w_.quantised_bytes_of_row() + inside);
      if (send) to_peers(at, inside, store);

      const unsigned width = scale_width(w_.pattern);
      if (w_.has_scales() && (width ? v * E % width == 0 : v == 0)) {
        const unsigned number = width ? v * E / width : 0;
        put_scale(w_.scales + scale_offset(at.token, number), stored);
        if (send)
          to_peers(at, w_.quantised_bytes_of_row() + number * w_.scale_bytes(),
                   [&](std::byte* to) { put_scale(to, stored); });
      }
    });
  }

  XYL_FN void put_scale(std::byte* to, std::uint32_t stored) const {
    if (is_nvfp4(w_.pattern))
      store_bits<1>(to, stored);
    else
      store_bits<4>(to, stored);
  }

 public:
  // Bytes from the beginning of the user's scales.
  XYL_FN std::uint64_t scale_offset(std::uint64_t token, unsigned number) const {
    if (w_.pattern == fused_pattern::nvfp4_swizzled)
      return swizzled_scale_offset(token, number, (w_.hidden + 63) / 64);
    return (token * w_.scales_of_row() + number) * w_.scale_bytes();
  }

 private:
  S& s_;
  const Call& c_;
  const fused_work& w_;
  const row_team& t_;
  const unsigned pieces_;
};

}  // namespace xyl
