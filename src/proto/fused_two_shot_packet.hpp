// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce in two shots of packets, for a few rows among many ranks: rows go to their owners as packets,
// and the owners send on, as packets too, everything that the peers keep of a row: its norm, and what goes to the
// next residual. So a row meets once, at its owner, and the peers only store. Two trips and no flag; packets can be
// awaited by any block, so all teams share in what is sent and what comes, whoever finishes the rows.
//
//   lines of (slot, source)   [rows that source has for this rank's share][norms of source's share][its residuals]
//
// In the sum's rank order, and with the values of the other forms.
#pragma once

#include "proto/fused.hpp"

namespace xyl {

namespace two_shot_packets {

// Rows of lines that an owner sends of each of its rows.
XYL_FN constexpr unsigned rows_sent(const fused_work& w) {
  return w.pattern != fused_pattern::all_reduce && w.residual_out && !w.residual_sharded ? 2 : 1;
}

// Where the shares' rows are: row k of rank p's share in this launch.
struct shares {
  const fused_work& w;
  unsigned others;  // ranks - 1

  XYL_FN bool find(int p, unsigned k, std::uint64_t& token) const {
    token = static_cast<unsigned>(p) * w.share + w.first + k;
    return w.first + k < w.share && token < w.tokens;
  }
  XYL_FN std::uint64_t scattered(unsigned k, unsigned v) const { return std::uint64_t{k} * w.row_line_stride + v; }
  // kind 0: the norm (or the sum, where that is all); 1: the residual.
  XYL_FN std::uint64_t gathered(unsigned k, unsigned kind, unsigned v) const {
    return (std::uint64_t{w.rows} * (1 + kind) + k) * w.row_line_stride + v;
  }
  // Number n of the rows that this rank has for others, or they for it: a row of the shares, and whose.
  XYL_FN unsigned row_of(unsigned n) const { return n / others; }
  XYL_FN int rank_of(unsigned n, int rank, int ranks) const {
    const int p = rank + 1 + static_cast<int>(n % others);
    return p < ranks ? p : p - ranks;
  }
};

// The rows of other owners that this team stores. No value is taken before the lines of several rows are under way.
template <class F, int J, class S, class Call, class Epilogue>
XYL_FN bool take_rows(S& s, const Call& c, const fused_work& w, const row_team& t, const shares& at_shares,
                      Epilogue& epilogue, bool good) {
  constexpr int E = F::per_word, B = J == 1 && !F::quantises ? 4 : 1;
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const unsigned slot = c.map.slot(s.epoch()), all = w.rows * at_shares.others, kinds = rows_sent(w);
  for (unsigned first = t.index; first < all; first += t.teams * B) {
    std::uint64_t token[B] = {}, word[J][2 * B];
    bool has[B] = {};
    int source[B] = {};
    unsigned row[B] = {};
#pragma unroll
    for (int i = 0; i < B; ++i) {
      const unsigned n = first + static_cast<unsigned>(i) * t.teams;
      if (n >= all) continue;
      row[i] = at_shares.row_of(n);
      source[i] = at_shares.rank_of(n, c.rank, ranks);
      has[i] = at_shares.find(source[i], row[i], token[i]);
    }
    for_each_piece<J>(s, t, [&](int j, unsigned v) {
      const line* lines[2 * B] = {};
#pragma unroll
      for (int i = 0; i < 2 * B; ++i) {
        word[j][i] = 0;
        const unsigned kind = i % 2;
        if (has[i / 2] && kind < kinds)
          lines[i] = at<const line>(c, c.rank,
                                    c.map.packet_offset(slot, static_cast<unsigned>(source[i / 2]),
                                                        at_shares.gathered(row[i / 2], kind, v)));
      }
      if (good)
        good =
            s.template get_all<2 * B>(lines, packet_epoch(s.epoch()), word[j], waiting{source[0], phase::gather});
    });
    // Nothing of this launch is waited for after the last rows.
    if (good && first + t.teams * B >= all) received(s);
#pragma unroll
    for (int i = 0; i < B; ++i) {
      if (!has[i]) continue;
      const std::uint64_t begin = token[i] * w.hidden * F::element_bytes;
      if (good && kinds == 2)
        for_each_piece<J>(s, t, [&](int j, unsigned v) {
          store_piece<1>(s, w.residual_out + begin + std::uint64_t{v} * 8, piece<1>{{word[j][2 * i + 1]}});
        });
      if (F::quantises && quantises(w.pattern)) {
        row_inputs<F, 1, J> in;
        in.load(s, w, t, token[i], false);
        float x[J][E];
        for_each_piece<J>(
            s, t, [&](int j, unsigned) { decode_piece<typename F::codec>(piece<1>{{word[j][2 * i]}}, x[j]); });
        const row_place place{row[i] * static_cast<unsigned>(ranks) + static_cast<unsigned>(source[i]), token[i]};
        good = epilogue.finish(place, row_stage::norm, in, good, x);
        if (!good) return false;
      } else if (good && w.output) {
        for_each_piece<J>(s, t, [&](int j, unsigned v) {
          store_piece<1>(s, w.output + begin + std::uint64_t{v} * 8, piece<1>{{word[j][2 * i]}});
        });
      }
    }
  }
  return good;
}

template <class F, class S, class Call>
XYL_FN bool block(S& s, const Call& c, const fused_work& w) {
  constexpr int E = F::per_word, J = pieces_of_lane<S, E>();
  constexpr bool keep = J <= 8;
  const int ranks = F::ranks ? F::ranks : c.ranks;
  const row_team t = row_team::of(s, w, w.hidden / E);
  const shares at_shares{w, static_cast<unsigned>(ranks - 1)};
  std::uint64_t token = 0;

  // See fused_packet_block: what is sent first, then what is needed for the first own row.
  const unsigned all = w.rows * at_shares.others;
  const auto find_sent = [&](unsigned n, int& p) {
    p = at_shares.rank_of(n, c.rank, ranks);
    return at_shares.find(p, at_shares.row_of(n), token);
  };
  std::uint64_t out[keep ? J : 1], first[keep ? J : 1];
  int p = 0;
  if constexpr (keep) {
    const bool sends = t.index < all && find_sent(t.index, p);
    load_first_words<F>(s, c, w, t, sends, token, out);
  }
  read_turn(s);
  row_inputs<F, 1, J> in;
  if (keep && t.index < w.rows && at_shares.find(c.rank, t.index, token)) {
    for_each_piece<J>(s, t, [&](int j, unsigned v) { first[keep ? j : 0] = addend<F, 1>(s, w, token, v).word[0]; });
    in.load(s, w, t, token, true);
  }
  put_headers(s, c);
  const unsigned slot = c.map.slot(s.epoch());
  for (unsigned n = t.index; n < all; n += t.teams) {
    if (!find_sent(n, p)) continue;
    for_each_piece<J>(s, t, [&](int j, unsigned v) {
      const std::uint64_t word = keep && n == t.index ? out[keep ? j : 0] : addend<F, 1>(s, w, token, v).word[0];
      const std::uint64_t to =
          c.map.packet_offset(slot, static_cast<unsigned>(c.rank), at_shares.scattered(at_shares.row_of(n), v));
      s.put(at<line>(c, p, to), word, packet_epoch(s.epoch()));
    });
  }
  sent(s);

  bool good = join(s);
  // Eight peers' lines at once leave no registers for the quantiser.
  constexpr bool in_batches = F::quantises && F::ranks > packet_batch;
  bool with_headers = J == 1 && !in_batches && good && t.index < w.rows && at_shares.find(c.rank, t.index, token) &&
                      units_bring_headers<F>(s, c);
  good = good && (with_headers || check_headers(s, c));
  row_epilogue<S, Call, F, 1, J> epilogue(s, c, w, t, F{});
  bool agreed = false;
  for (unsigned k = t.index; k < w.rows; k += t.teams) {
    if (!at_shares.find(c.rank, k, token)) continue;
    const bool is_first = keep && k == t.index;
    if (!is_first) in.load(s, w, t, token, true);
    float x[J][E];
    const auto sum = [&](int j, unsigned v, bool has_data) {
      const std::uint64_t own = !has_data  ? 0
                                : is_first ? first[keep ? j : 0]
                                           : addend<F, 1>(s, w, token, v).word[0];
      if constexpr (in_batches) {
        for (int p = 0; p < F::ranks && good && has_data; p += packet_batch)
          good =
              reduce_packets<packet_batch, false>(s, c, F{}, p, ranks, true, at_shares.scattered(k, v), own, x[j]);
      } else {
        good = reduce_unit(s, c, F{}, with_headers, good, has_data, at_shares.scattered(k, v), own, x[j]);
      }
    };
    if constexpr (J == 1) {
      const unsigned v = t.begin + s.lane();
      sum(0, v, v < t.end);
    } else {
      for_each_piece<J>(s, t, [&](int j, unsigned v) { sum(j, v, true); });
    }
    with_headers = false;
    row_place place{k * static_cast<unsigned>(ranks) + static_cast<unsigned>(c.rank), token};
    place.sent = row_sent::as_packets;
    place.wire = at_shares.gathered(k, 0, 0);
    place.wire_of_residual = at_shares.gathered(k, rows_sent(w) - 1, 0);
    good = epilogue.finish(place, row_stage::sum, in, good, x);
    if (!good) return false;
    agreed = true;
  }
  // A team without a row of its own agrees before it stores others'.
  if (!agreed) good = s.all(good);
  return good && take_rows<F, J>(s, c, w, t, at_shares, epilogue, good);
}

}  // namespace two_shot_packets

template <class F, class S, class Call>
XYL_FN bool fused_two_shot_packet(S& s, const Call& c, const fused_work& w) {
  const bool good = begin_early(s) && two_shot_packets::block<F>(s, c, w);
  s.leave();
  return good;
}

}  // namespace xyl
