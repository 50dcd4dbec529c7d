// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce, three forms of it. In all of them the sum is made in rank order in fp32 and every rank ends
// with the same bits, whatever the form.
//
//   one-shot, packets  every rank puts all its rows into every peer's memory as packets; every rank finishes all of
//                      them
//   one-shot           the same with bulk data and one flag per block
//   two-shot           rows go to their owners, who finish them and send on what makes the fewest bytes
//
// f: the kind itself, where it has loops over rows (see fused_kind).
//
// A row is a team's of blocks, one for most shapes. A call may take several launches; see fused_work. A bad
// verdict, which may be one block's alone, is carried along to the next row that the team finishes: its other
// blocks wait there for this one.
#pragma once

#include "proto/flagged.hpp"
#include "proto/fused_row.hpp"
#include "proto/packet.hpp"

namespace xyl {

// This rank's addend to a piece: its input, or what its experts' outputs make, rounded to the type.
template <class F, int W, class S>
XYL_FN piece<W> addend(S& s, const fused_work& w, std::uint64_t token, unsigned v) {
  constexpr int E = W * F::per_word;
  const std::uint64_t column = std::uint64_t{v} * E;
  if constexpr (F::mixes) {
    if (w.experts != 0) {
      float x[E] = {};
      if (w.input)
        decode_piece<typename F::codec>(load_piece<W>(s, w.input + (token * w.hidden + column) * F::element_bytes),
                                        x);
      for (std::uint32_t k = 0; k < w.experts; ++k) {
        const std::uint64_t row =
            w.expert_row ? static_cast<std::uint32_t>(w.expert_row[token * w.experts + k]) : k * w.tokens + token;
        if (row >= w.expert_rows) continue;  // an expert of another rank
        const float weight = w.expert_weight[token * w.experts + k];
        float from[E];
        decode_piece<typename F::codec>(
            load_piece<W>(s, w.expert_output + (row * w.hidden + column) * F::element_bytes), from);
#pragma unroll
        for (int i = 0; i < E; ++i) x[i] = fused_multiply_add(weight, from[i], x[i]);
      }
      return round_piece<typename F::codec, W>(x);
    }
  }
  return load_piece<W>(s, w.input + (token * w.hidden + column) * F::element_bytes);
}

template <class F>
XYL_FN bool is_mixed(const fused_work& w) {
  return F::mixes && w.experts != 0;
}

// What a lane of packets sends first: its pieces of a row, of whatever for pieces or a row that do not exist. It is
// loaded without a branch where it can be: behind one the compiler asks for the turn first, and waits for it.
template <class F, int J, class S, class Call>
XYL_FN void load_first_words(S& s, const Call& c, const fused_work& w, const row_team& t, bool has_row,
                             std::uint64_t token, std::uint64_t (&word)[J]) {
  if constexpr (F::mixes) {
    if (has_row)
      for_each_piece<J>(s, t, [&](int j, unsigned v) { word[j] = addend<F, 1>(s, w, token, v).word[0]; });
  } else {
    const std::byte* const row =
        has_row ? w.input + token * w.hidden * F::element_bytes : at_own<const std::byte>(c, 0);
#pragma unroll
    for (int j = 0; j < J; ++j)
      word[j] = load_piece<1>(s, row + (has_row ? piece_or_other(s, t, j) : 0) * std::uint64_t{8}).word[0];
  }
}

template <class F, class S, class Call>
XYL_FN bool fused_packet_block(S& s, const Call& c, const fused_work& w) {
  constexpr int E = F::per_word, J = pieces_of_lane<S, E>();
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const row_team t = row_team::of(s, w, w.hidden / E);
  const auto line_of = [&](unsigned row, unsigned v) { return std::uint64_t{row} * w.row_line_stride + v; };

  // What a lane needs for its first row is loaded before the epoch is known: the trips to memory overlap.
  constexpr bool keep = J <= 8;
  std::uint64_t first[keep ? J : 1];
  row_inputs<F, 1, J> in;
  if constexpr (keep) load_first_words<F>(s, c, w, t, t.index < w.rows, w.first + t.index, first);
  read_turn(s);
  if (keep && t.index < w.rows) in.load(s, w, t, w.first + t.index, true);

  put_headers(s, c);
  const unsigned slot = c.map.slot(s.epoch());
  for (unsigned row = t.index; row < w.rows; row += t.teams)
    for_each_piece<J>(s, t, [&](int j, unsigned v) {
      const std::uint64_t word =
          keep && row == t.index ? first[keep ? j : 0] : addend<F, 1>(s, w, w.first + row, v).word[0];
      const std::uint64_t to = c.map.packet_offset(slot, static_cast<unsigned>(c.rank), line_of(row, v));
#pragma unroll
      for (int k = 1; k < ranks; ++k) {
        const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
        s.put(at<line>(c, p, to), word, packet_epoch(s.epoch()));
      }
    });

  sent(s);

  bool good = join(s);
  // A lane with more pieces than one would wait for its header beside the first alone.
  bool with_headers = J == 1 && good && t.index < w.rows && units_bring_headers<F>(s, c);
  good = good && (with_headers || check_headers(s, c));
  row_epilogue<S, Call, F, 1, J> epilogue(s, c, w, t, F{});
  bool any = false;
  for (unsigned row = t.index; row < w.rows; row += t.teams) {
    const std::uint64_t token = w.first + row;
    const bool is_first = keep && row == t.index;
    if (!is_first) in.load(s, w, t, token, true);
    float x[J][E];
    const auto sum = [&](int j, unsigned v, bool has_data) {
      const std::uint64_t own = !has_data  ? 0
                                : is_first ? first[keep ? j : 0]
                                           : addend<F, 1>(s, w, token, v).word[0];
      good = reduce_unit(s, c, F{}, with_headers, good, has_data, line_of(row, v), own, x[j]);
    };
    if constexpr (J == 1) {
      const unsigned v = t.begin + s.lane();
      sum(0, v, v < t.end);
    } else {
      for_each_piece<J>(s, t, [&](int j, unsigned v) { sum(j, v, true); });
    }
    with_headers = false;
    if (good && !any) received(s);
    any = true;
    good = epilogue.finish({row, token}, row_stage::sum, in, good, x);
    if (!good) return false;
  }
  return any || s.all(good);
}

// Of so many ranks the loads are on their way together.
template <class F>
inline constexpr int ranks_summed_together = F::ranks != 0 ? F::ranks : 4;

// x[k] = the sum in rank order of pieces k, rank p's at load(p, k).
template <class F, int Pieces, int E, class Load>
XYL_FN void sum_in_rank_order(int ranks, Load load, float (*x)[E]) {
  constexpr int batch = ranks_summed_together<F>;
  for (int base = 0; base < ranks; base += batch) {
    piece<2> in[Pieces][batch];
#pragma unroll
    for (int k = 0; k < Pieces; ++k)
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (F::ranks != 0 || base + i < ranks) in[k][i] = load(base + i, k);
#pragma unroll
    for (int k = 0; k < Pieces; ++k)
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        if (F::ranks == 0 && base + i >= ranks) continue;
        float value[E];
        decode_piece<typename F::codec>(in[k][i], value);
#pragma unroll
        for (int e = 0; e < E; ++e) x[k][e] = base + i == 0 ? value[e] : x[k][e] + value[e];
      }
  }
}

// The sums of a row's pieces, rank p's at load(p, piece). Up to eight loads of a lane are on their way together, or
// as many as there are ranks.
template <class F, int J, int E, class S, class Call, class Load>
XYL_FN void sum_loaded(S& s, const Call& c, const row_team& t, Load load, float (&x)[J][E]) {
  constexpr int batch = ranks_summed_together<F>, group = J > 4 || batch >= 8 ? 1 : J < 8 / batch ? J : 8 / batch;
  static_assert(J % group == 0);
#pragma unroll
  for (int j = 0; j < J; j += group) {
    // Under a condition the compiler leaves the next piece's loads where they are: registers are short.
    if (group == 1 && t.begin + static_cast<unsigned>(j) * s.lanes() + s.lane() >= t.end) return;
    sum_in_rank_order<F, group>(
        F::ranks ? F::ranks : c.ranks, [&](int p, int k) { return load(p, piece_or_other(s, t, j + k)); }, x + j);
  }
}

// A piece that a peer has written.
template <class S>
XYL_FN piece<2> load_peer_piece(S& s, const std::byte* from) {
  const unit16 u = s.load_peer16(reinterpret_cast<const unit16*>(from));
  return {{u.word[0] | std::uint64_t{u.word[1]} << 32, u.word[2] | std::uint64_t{u.word[3]} << 32}};
}

// The same of what all ranks have put at from(rank) in this rank's workspace; this rank's own may lie in its input.
template <class F, int J, int E, class S, class Call, class From>
XYL_FN void sum_staged(S& s, const Call& c, const fused_work& w, const row_team& t, std::uint64_t token, From from,
                       float (&x)[J][E]) {
  const auto load = [&](int p, unsigned v) {
    const std::uint64_t inside = std::uint64_t{v} * 16;
    if (p == c.rank && !is_mixed<F>(w))
      return load_piece<2>(s, w.input + token * w.hidden * F::element_bytes + inside);
    return load_peer_piece(s, at<const std::byte>(c, c.rank, from(p) + inside));
  };
  sum_loaded<F>(s, c, t, load, x);
}

template <class F, class S, class Call>
XYL_FN bool fused_one_shot_block(S& s, const Call& c, const fused_work& w, const F& f) {
  constexpr int E = 2 * F::per_word, J = pieces_of_lane<S, E>();
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const row_team t = row_team::of(s, w, w.hidden / E);
  const std::uint64_t row_bytes = std::uint64_t{w.hidden} * F::element_bytes;
  const std::uint64_t place = place_of(s, c, w.rows * row_bytes);
  const auto staged = [&](int p) {
    return c.map.bulk_offset(c.map.slot(s.epoch()), static_cast<unsigned>(p)) + place;
  };

  // A row's pieces are all loaded before any is stored, and those of the first row before the epoch is known.
  constexpr bool keep = J <= 4;
  piece<2> own[keep ? J : 1];
  row_inputs<F, 2, J> in;
  const auto load_own = [&](unsigned row) {
    if constexpr (keep)
#pragma unroll
      for (int j = 0; j < J; ++j) own[j] = addend<F, 2>(s, w, w.first + row, piece_or_other(s, t, j));
  };
  if (keep && t.index < w.rows) load_own(t.index);
  bool good = join(s);
  if constexpr (!is_single_lane<S>)
    if (good) put_headers(s, c);
  for (unsigned row = t.index; row < w.rows && good; row += t.teams)
    if constexpr (F::has_rows) {
      f.put_addend(s, c, w, w.first + row, is_mixed<F>(w) ? 0 : 1, ranks, staged(c.rank) + row * row_bytes);
    } else {
      if (row != t.index) load_own(row);
      for_each_piece<J>(s, t, [&](int j, unsigned v) {
        const unit16 u = unit_of(keep ? own[keep ? j : 0] : addend<F, 2>(s, w, w.first + row, v));
        const std::uint64_t to = staged(c.rank) + row * row_bytes + std::uint64_t{v} * 16;
        for (int k = is_mixed<F>(w) ? 0 : 1; k < ranks; ++k) {
          const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
          s.store16(at<unit16>(c, p, to), u);
        }
      });
    }
  if (keep && t.index < w.rows) in.load(s, w, t, w.first + t.index, true);
  good = good && exchange_first_phase(s, c, flag_family::one_shot, phase::one_shot);

  row_epilogue<S, Call, F, 2, J> epilogue(s, c, w, t, f);
  for (unsigned row = t.index; row < w.rows; row += t.teams) {
    const std::uint64_t token = w.first + row;
    if (!keep || row != t.index) in.load(s, w, t, token, true);
    float x[J][E];
    const auto from = [&](int p) { return staged(p) + row * row_bytes; };
    if constexpr (F::has_rows) {
      if (good) f.sum(c, w, token, from, x[0]);
    } else if (good) {
      sum_staged<F>(s, c, w, t, token, from, x);
    }
    good = epilogue.finish({row, token}, row_stage::sum, in, good, x);
    if (!good) return false;
  }
  return good;
}

// Copies this block's part of a quantised row, scales and all, from the wire to this rank's buffers: what the
// owner's block of the same index has written, and no more, since it waited for that one's flag.
template <int E, class S, class Call, class Epilogue>
XYL_FN void deliver_quantised(S& s, const Call& c, const fused_work& w, const row_team& t, const Epilogue& epilogue,
                              std::uint64_t token, std::uint64_t from) {
  const std::byte* const row = at<const std::byte>(c, c.rank, from);
  const std::uint64_t bytes = w.quantised_bytes_of_row();
  // A part begins with a group and ends with one or with the row: whole words, and whole scales.
  const unsigned of_piece = is_nvfp4(w.pattern) ? E / 2 : E;
  for (unsigned i = t.begin * of_piece / 8 + s.lane(); i < t.end * of_piece / 8; i += s.lanes())
    reinterpret_cast<overlay<std::uint64_t>*>(w.quantised + token * bytes)[i].word =
        reinterpret_cast<const overlay<std::uint64_t>*>(row)[i].word;
  if (!w.has_scales()) return;
  const unsigned width = scale_width(w.pattern);
  const unsigned first = width ? t.begin * E / width : 0, last = width ? t.end * E / width : t.begin == 0;
  for (unsigned i = first + s.lane(); i < last; i += s.lanes()) {
    std::byte* const to = w.scales + epilogue.scale_offset(token, i);
    if (is_nvfp4(w.pattern))
      *to = row[bytes + i];
    else
      reinterpret_cast<overlay<std::uint32_t>*>(to)->word =
          reinterpret_cast<const overlay<std::uint32_t>*>(row + bytes)[i].word;
  }
}

template <class F, class S, class Call>
XYL_FN bool fused_two_shot_block(S& s, const Call& c, const fused_work& w, const F& f) {
  constexpr int E = 2 * F::per_word, J = pieces_of_lane<S, E>();
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const row_team t = row_team::of(s, w, w.hidden / E);
  const std::uint64_t row_bytes = std::uint64_t{w.hidden} * F::element_bytes;
  const std::uint64_t wire_bytes = w.wire_row_bytes(F::element_bytes);
  const std::uint64_t place = place_of(s, c, w.rows * (row_bytes + wire_bytes));
  // Asked for behind join(): a space may know the epoch no sooner.
  const auto scattered = [&](int p) {
    return c.map.bulk_offset(c.map.slot(s.epoch()), static_cast<unsigned>(p)) + place;
  };
  // The gathered rows lie behind the scattered ones: an owner may be a whole phase ahead of its peers.
  const auto gathered = [&](int p) { return scattered(p) + w.rows * row_bytes; };
  // Row k of rank p's share in this launch; false if the share has no such row.
  const auto find = [&](int p, unsigned k, std::uint64_t& token) {
    token = static_cast<unsigned>(p) * w.share + w.first + k;
    return w.first + k < w.share && token < w.tokens;
  };
  std::uint64_t token = 0;

  bool good = join(s);
  if constexpr (!is_single_lane<S>)
    if (good) put_headers(s, c);
  for (unsigned k = t.index; k < w.rows && good; k += t.teams)
    for (int step = is_mixed<F>(w) ? 0 : 1; step < ranks; ++step) {
      const int p = c.rank + step < ranks ? c.rank + step : c.rank + step - ranks;
      if (!find(p, k, token)) continue;
      if constexpr (F::has_rows)
        f.put_addend(s, c, w, token, step, step + 1, scattered(c.rank) + k * row_bytes);
      else
        for_each_piece<J>(s, t, [&](int, unsigned v) {
          s.store16(at<unit16>(c, p, scattered(c.rank) + k * row_bytes + std::uint64_t{v} * 16),
                    unit_of(addend<F, 2>(s, w, token, v)));
        });
    }
  good = good && exchange_first_phase(s, c, flag_family::scatter, phase::scatter);

  row_epilogue<S, Call, F, 2, J> epilogue(s, c, w, t, f);
  float x[J][E];
  row_inputs<F, 2, J> in;
  // This rank's own rows, then the other owners': one text for both, since the epilogue is long.
#pragma unroll 1
  for (int step = 0; step < ranks; ++step) {
    const bool is_own = step == 0;
    const int p = c.rank + step < ranks ? c.rank + step : c.rank + step - ranks;
    if (step == 1 && good) {
      post_all(s, c, flag_family::gather);
      good = s.all(await_all(s, c, flag_family::gather, phase::gather));
    }
#pragma unroll 1
    for (unsigned k = t.index; k < w.rows; k += t.teams) {
      if (!find(p, k, token)) continue;
      const std::uint64_t on_wire = gathered(p) + k * wire_bytes;
      if (!is_own && w.wire == fused_wire::quantised) {
        if (good) deliver_quantised<E>(s, c, w, t, epilogue, token, on_wire);
        continue;
      }
      in.load(s, w, t, token, is_own);
      const auto from = [&](int q) { return scattered(q) + k * row_bytes; };
      if constexpr (F::has_rows) {
        if (good && is_own) f.sum(c, w, token, from, x[0]);
        if (good && !is_own) f.decode(c, w, on_wire, x[0]);
      } else if (good && is_own) {
        sum_staged<F>(s, c, w, t, token, from, x);
      } else if (good) {
        for_each_piece<J>(s, t, [&](int j, unsigned v) {
          decode_piece<typename F::codec>(
              load_peer_piece(s, at<const std::byte>(c, c.rank, on_wire + std::uint64_t{v} * 16)), x[j]);
        });
      }
      const row_place of_row{k * static_cast<unsigned>(ranks) + static_cast<unsigned>(p), token,
                             is_own ? row_sent::as_bytes : row_sent::not_at_all, on_wire};
      const row_stage others = w.wire == fused_wire::residual ? row_stage::residual : row_stage::norm;
      good = epilogue.finish(of_row, is_own ? row_stage::sum : others, in, good, x);
      if (!good) return false;
    }
  }
  return good;
}

template <class F, class S, class Call>
XYL_FN bool fused_packet(S& s, const Call& c, const fused_work& w) {
  const bool good = begin_early(s) && fused_packet_block<F>(s, c, w);
  s.leave();
  return good;
}

template <class F, class S, class Call>
XYL_FN bool fused_one_shot(S& s, const Call& c, const fused_work& w, const F& f = {}) {
  const bool good = begin_early(s) && fused_one_shot_block<F>(s, c, w, f);
  s.leave();
  return good;
}

template <class F, class S, class Call>
XYL_FN bool fused_two_shot(S& s, const Call& c, const fused_work& w, const F& f = {}) {
  const bool good = begin_early(s) && fused_two_shot_block<F>(s, c, w, f);
  s.leave();
  return good;
}

}  // namespace xyl
