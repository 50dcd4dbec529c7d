// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that only move data, with packets: every piece travels as lines of data and epoch, and whoever
// reads a whole line has it. For small messages, as packet.hpp. One unit is 8 bytes.
#pragma once

#include "proto/movement.hpp"
#include "proto/packet.hpp"

namespace xyl {

// Ranks: their number as a constant, or 0.
template <int Ranks, class S, class Call>
XYL_FN bool packet_exchange_block(S& s, const Call& c, const movement& m) {
  constexpr int batch = Ranks ? Ranks : packet_batch;
  const int ranks = Ranks ? Ranks : c.ranks;
  const epoch_t e = s.epoch();
  const range mine = part_of_block(s, units_of(m.bytes, 8));
  const unsigned in_grain = grain_of(c.input, m.input_stride), out_grain = grain_of(c.output, m.output_stride);
  const auto load = [&](int p, std::uint64_t u) {
    return load_grained<std::uint64_t>(c.input + m.input_stride * static_cast<unsigned>(p) + u * 8, m.bytes - u * 8,
                                       in_grain);
  };

  put_headers(s, c);
  if (m.sends(c.rank))
    for (std::uint64_t u = mine.begin + s.lane(); u < mine.end; u += s.lanes()) {
      const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), u);
      std::uint64_t word = m.input_stride == 0 ? load(0, u) : 0;
#pragma unroll
      for (int k = 1; k < ranks; ++k) {
        const int p = c.rank + k < ranks ? c.rank + k : c.rank + k - ranks;
        if (!m.receives(p)) continue;
        if (m.input_stride != 0) word = load(p, u);
        s.put(at<line>(c, p, to), word, packet_epoch(e));
      }
    }
  sent(s);
  if (!join(s)) return false;

  // Nothing is stored before all headers were seen; the wait for them and for the first packets overlap.
  const bool receives = m.receives(c.rank);
  bool good = check_headers(s, c);
  bool agreed = false;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed; first += s.lanes()) {
    const std::uint64_t u = first + s.lane();
    const bool has_unit = receives && u < mine.end;
    for (int begin = 0; begin < ranks; begin += batch) {
      const line* lines[batch];
      std::uint64_t words[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int p = begin + i;
        const bool is_sender = has_unit && p < ranks && m.sends(p);
        lines[i] = is_sender && p != c.rank
                       ? at<const line>(c, c.rank, c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(p), u))
                       : nullptr;
        words[i] = is_sender && p == c.rank ? load(p, u) : 0;
      }
      good = good && s.template get_all<batch>(lines, packet_epoch(e), words, waiting{begin, phase::packet, batch});
      if (!agreed) {
        if (!s.all(good)) return false;
        agreed = true;
      }
      // Whoever gets from all has heard of all.
      if (good && has_unit && m.from == movement::everyone && begin + batch >= ranks) received(s);
      if (good && has_unit)
#pragma unroll
        for (int i = 0; i < batch; ++i)
          if (begin + i < ranks && m.sends(begin + i))
            store_grained(c.output + m.output_stride * static_cast<unsigned>(begin + i) + u * 8, m.bytes - u * 8,
                          out_grain, words[i]);
    }
  }
  return good;
}

template <int Ranks = 0, class S, class Call>
XYL_FN bool packet_exchange(S& s, const Call& c, const movement& m) {
  const bool good = begin_early(s) && packet_exchange_block<Ranks>(s, c, m);
  s.leave();
  return good;
}

}  // namespace xyl
