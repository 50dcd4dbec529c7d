// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that only move data, with packets: every piece travels as lines of data and epoch, and whoever
// reads a whole line has it. For small messages, as packet.hpp. One unit is 8 bytes.
#pragma once

#include "proto/movement.hpp"
#include "proto/packet.hpp"

namespace xyl {

// Whether pieces and buffers are of whole units: then kernels for a number of ranks, which have code for nothing
// else, will do. A rank's own affair.
XYL_FN bool moves_whole_units(const void* input, const void* output, const movement& m) {
  return grain_of(input, m.input_stride) >= 8 && grain_of(output, m.output_stride) >= 8 && m.bytes % 8 == 0;
}

// Ranks: their number as a constant, where moves_whole_units(), or 0.
template <int Ranks, class S, class Call>
XYL_FN bool packet_exchange_block(S& s, const Call& c, const movement& m) {
  constexpr int batch = Ranks ? Ranks : packet_batch;
  const int ranks = Ranks ? Ranks : c.ranks;
  const range mine = part_of_block(s, units_of(m.bytes, 8));
  const unsigned in_grain = grain_of(c.input, m.input_stride), out_grain = grain_of(c.output, m.output_stride);
  const auto load = [&](int p, std::uint64_t u) {
    const std::byte* const from = c.input + m.input_stride * static_cast<unsigned>(p) + u * 8;
    if constexpr (Ranks)
      return reinterpret_cast<const overlay<std::uint64_t>*>(from)->word;
    else
      return load_grained<std::uint64_t>(from, m.bytes - u * 8, in_grain);
  };
  const auto store = [&](int p, std::uint64_t u, std::uint64_t word) {
    std::byte* const to = c.output + m.output_stride * static_cast<unsigned>(p) + u * 8;
    if constexpr (Ranks)
      reinterpret_cast<overlay<std::uint64_t>*>(to)->word = word;
    else
      store_grained(to, m.bytes - u * 8, out_grain, word);
  };

  // What ranks first to first + at_once - 1 behind this one get of unit u, or all get; loaded before any is put, and
  // for the first unit before the epoch is known.
  constexpr int at_once = Ranks ? Ranks - 1 : batch;
  const auto peer = [&](int k) { return c.rank + k < ranks ? c.rank + k : c.rank + k - ranks; };
  std::uint64_t out[at_once] = {};
  const auto load_out = [&](std::uint64_t u, int first) {
    if (m.input_stride == 0) {
      if (first == 1) out[0] = load(0, u);
      return;
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      if (first + i < ranks && m.receives(peer(first + i))) out[i] = load(peer(first + i), u);
  };
  const std::uint64_t mine_first = mine.begin + s.lane();
  const bool sends = m.sends(c.rank);
  if (sends && mine_first < mine.end) load_out(mine_first, 1);
  put_headers(s, c);
  const epoch_t e = s.epoch();
  if (sends)
    for (std::uint64_t u = mine_first; u < mine.end; u += s.lanes()) {
      const std::uint64_t to = c.map.packet_offset(c.map.slot(e), static_cast<unsigned>(c.rank), u);
      for (int first = 1; first < (Ranks ? 2 : ranks); first += at_once) {
        if (u != mine_first || first != 1) load_out(u, first);
#pragma unroll
        for (int i = 0; i < at_once; ++i)
          if (first + i < ranks && m.receives(peer(first + i)))
            s.put(at<line>(c, peer(first + i), to), m.input_stride == 0 ? out[0] : out[i], packet_epoch(e));
      }
    }
  sent(s);
  if (!join(s)) return false;

  // Nothing is stored before all headers were seen; the wait for them and for the first packets overlap.
  const bool receives = m.receives(c.rank), is_of_all = m.from == movement::everyone;
  bool good = check_headers(s, c);
  bool agreed = false;
  for (std::uint64_t first = mine.begin; first < mine.end || !agreed; first += s.lanes()) {
    const std::uint64_t u = first + s.lane();
    const bool has_unit = receives && u < mine.end;
    const std::uint64_t own = has_unit && m.sends(c.rank) ? load(c.rank, u) : 0;
    for (int begin = 0; begin < (is_of_all ? ranks : 1); begin += batch) {
      std::uint64_t words[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) words[i] = own;
      if (good && has_unit) {
        if (is_of_all) {
          good = get_packets<batch, batch == Ranks>(s, c, begin, ranks, u, words);
        } else if (m.from != c.rank) {
          const auto source = static_cast<unsigned>(m.from);
          const line* const lines[1] = {at<const line>(c, c.rank, c.map.packet_offset(c.map.slot(e), source, u))};
          std::uint64_t got[1] = {};
          good = s.template get_all<1>(lines, packet_epoch(e), got, waiting{m.from, phase::packet, 1});
          words[0] = got[0];
        }
      }
      if (!agreed) {
        if (!s.all(good)) return false;
        agreed = true;
      }
      if (!good || !has_unit) continue;
      if (is_of_all) {
        if (begin + batch >= ranks) received(s);  // from all
#pragma unroll
        for (int i = 0; i < batch; ++i)
          if (Ranks || begin + i < ranks) store(begin + i, u, words[i]);
      } else {
        store(m.from, u, words[0]);
      }
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
