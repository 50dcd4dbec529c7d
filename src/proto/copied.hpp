// SPDX-License-Identifier: BSD-3-Clause
//
// Allreduce whose data is moved by copy engines, which know no flags: between the copies stand steps, one block
// each, that tell the peers what has been copied or wait for what they have. A message is cut into chunks, of which
// several are on their way together, each in its own slot. Two ranks send each other whole chunks, as reduce-scatter
// and the collectives that move pieces do. Among more, a chunk is cut into a share for each rank, and a rank
//
//   sends its part of each share to the share's owner, and tells it: copied_share
//   awaits the same from all, and takes it
//   adds up its own share in rank order, into the output
//   sends the result to all, and tells them: copied_result
//   awaits the other results, and takes them
//   stores them in the output
//
// Sending and taking are copies, on queues of their own; to take is to copy from a workspace in host memory into
// the device's, and where peers write straight into the device's memory there is nothing to take. Only the two
// computing kernels touch the output, and neither does after something went wrong: what is copied lands in slots
// that no other protocol uses.
//
// A call begins and ends with headers alone (a meeting). Everybody has taken everything when the call ends: slots
// are free at the beginning of each call, so that the first copies need not wait for the meeting, and chunks are
// numbered from 1 in each. Nobody tells or awaits anything before the meeting is over. Flags hold the number behind
// the epoch that comes next, which stands still until the second one. Inside a call the order of the queues keeps
// slots apart; copied_schedule.hpp says how.
#pragma once

#include "proto/bulk.hpp"
#include "proto/movement.hpp"

namespace xyl {

// What a one-block kernel does between copies: it tells all peers, or waits for all. Chunks are numbered from 1.
struct copy_step {
  // Of a number in a flag. Calls of more chunks are cut.
  static constexpr unsigned number_bits = 16;
  static constexpr std::uint64_t most_chunks = (1u << number_bits) - 1;

  flag_family family = flag_family::copied_share;
  std::uint32_t number = 0;
  bool tells = false;
};

template <class S, class Call>
XYL_FN bool run_copy_step(S& s, const Call& c, const copy_step& step) {
  if (!s.begin_pair()) return false;
  const std::uint64_t value = (s.epoch() << copy_step::number_bits) + step.number;
  const phase what = step.family == flag_family::copied_share ? phase::scatter : phase::gather;
  bool good = true;
  for (int p = static_cast<int>(s.lane()); p < c.ranks && good; p += static_cast<int>(s.lanes())) {
    if (p == c.rank) continue;
    // Release: the copies that stand before this step, which ended before it began, are seen by whoever awaits it,
    // and so is that this rank has read what it says it has done with.
    if (step.tells) s.post(at<flag>(c, p, c.map.flag_offset(step.family, static_cast<unsigned>(c.rank), 0)), value);
    // Acquire: the copies that stand behind this step come after it.
    else
      good = s.await(at<const flag>(c, c.rank, c.map.flag_offset(step.family, static_cast<unsigned>(p), 0)), value,
                     waiting{p, what});
  }
  return s.all(good);
}

// A piece of a message, in bytes. Shares are whole units, the last ones may be short or empty.
struct copied_chunk {
  std::uint64_t number = 0;  // from 0
  std::uint64_t first = 0;   // byte of the message
  std::uint64_t bytes = 0;
  std::uint64_t share = 0;

  XYL_FN std::uint64_t begin_of(int p) const {
    const std::uint64_t begin = share * static_cast<unsigned>(p);
    return begin < bytes ? begin : bytes;
  }
  XYL_FN std::uint64_t bytes_of(int p) const {
    const std::uint64_t left = bytes - begin_of(p);
    return left < share ? left : share;
  }
};

struct copied_message {
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;  // of all chunks but the last
  std::uint64_t ranks = 0;
  // The first two chunks and the last two are smaller, a quarter and a half: one way is idle until the first has
  // come, and the other while the last is taken.
  bool tapers = false;

  // At least as many chunks as it takes to keep both directions at work, but none so small that its kernels take
  // longer than its copies.
  static constexpr std::uint64_t wanted_chunks = 8, least_chunk = 1 << 20;
  static constexpr std::uint64_t wanted_pieces = 16, least_piece = 2 << 20;

  static constexpr copied_message cut(std::uint64_t bytes, const layout& map) {
    const std::uint64_t step = 128 * map.ranks, most = map.copy_stride / 2 / 128 * step;
    return {bytes, size_of_chunk(bytes / wanted_chunks, least_chunk, step, most), map.ranks};
  }
  // The same of pieces that are not divided among the ranks: a slot is one piece's.
  static constexpr copied_message cut_piece(std::uint64_t bytes, const layout& map) {
    constexpr std::uint64_t step = 1024;
    const std::uint64_t most = map.copy_stride / 256 * 256;
    const std::uint64_t size =
        size_of_chunk(bytes / wanted_pieces, least_piece, step, most < step ? most : most / step * step);
    return {bytes, size, 1, size % step == 0 && bytes >= 4 * size};
  }
  // Whether an allreduce takes one phase: in two, two ranks would send as many bytes.
  static constexpr bool sums_in_one_phase(std::uint64_t ranks) { return ranks == 2; }
  static constexpr copied_message cut_sum(std::uint64_t bytes, const layout& map) {
    return sums_in_one_phase(map.ranks) ? cut_piece(bytes, map) : cut(bytes, map);
  }

  constexpr std::uint64_t chunks() const {
    return tapers ? (padded() - 6 * quarter() + chunk_bytes - 1) / chunk_bytes + 4
                  : (bytes + chunk_bytes - 1) / chunk_bytes;
  }
  constexpr copied_chunk chunk(std::uint64_t i) const {
    copied_chunk c;
    c.number = i;
    c.first = begin_of(i);
    c.bytes = begin_of(i + 1) - c.first;
    c.share = units_of(units_of(c.bytes, 16), ranks) * 16;
    return c;
  }

 private:
  static constexpr std::uint64_t size_of_chunk(std::uint64_t wanted, std::uint64_t least, std::uint64_t step,
                                               std::uint64_t most) {
    const std::uint64_t size = ((wanted > least ? wanted : least) + step - 1) / step * step;
    return size < most ? size : most;
  }
  constexpr std::uint64_t quarter() const { return chunk_bytes / 4; }
  constexpr std::uint64_t padded() const { return (bytes + 255) / 256 * 256; }
  constexpr std::uint64_t begin_of(std::uint64_t i) const {
    if (!tapers) return i * chunk_bytes < bytes ? i * chunk_bytes : bytes;
    const std::uint64_t left = chunks() - i;
    if (left < 3) return left == 0 ? bytes : padded() - (2 * left - 1) * quarter();
    return i < 3 ? (i == 0 ? 0 : 2 * i - 1) * quarter() : 3 * quarter() + (i - 2) * chunk_bytes;
  }
};

// Memory that this rank alone reads and writes, in place of its workspace.
struct landing {
  std::byte* base = nullptr;
  XYL_FN std::byte* operator[](int) const { return base; }
};

// What the computing steps are given; input and output are the chunk's.
struct copied_call {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::uint64_t stride = 0;  // of the regions behind the landing's base, which are those of one slot
  landing workspace;

  XYL_FN std::uint64_t share_of(int p) const { return stride * static_cast<unsigned>(p); }
  XYL_FN std::uint64_t result_of(int p) const { return share_of(p) + stride / 2; }
};

// This block's part of the units of rank p's share.
template <class S>
XYL_FN range part_of_share(const S& s, const copied_chunk& k, int p) {
  const std::uint64_t units = units_of(k.bytes_of(p), 16);
  const range part = part_of_block(s, k.share / 16);
  return {part.begin < units ? part.begin : units, part.end < units ? part.end : units};
}

template <class S, class R>
XYL_FN void reduce_copied(S& s, const copied_call& c, const R& red, const copied_chunk& k) {
  const std::uint64_t first = k.begin_of(c.rank) / 16;
  const range part = part_of_share(s, k, c.rank);
  reduce_in_rank_order(s, c, red, {first + part.begin, first + part.end},
                       [&](int p) { return c.share_of(p) + part.begin * 16; });
}

template <class S>
XYL_FN void deliver_copied(S& s, const copied_call& c, const copied_chunk& k) {
  for (int i = 1; i < c.ranks; ++i) {
    const int p = rank_after(c, i);
    const range part = part_of_share(s, k, p);
    std::byte* const to = c.output + k.begin_of(p);
    deliver_piece(s, c, to, k.bytes_of(p), grain_of(to, 0), part, c.result_of(p) + part.begin * 16, c.rank);
  }
}

// The same for what takes one phase: chunks of pieces, of which rank p's has landed in its region. m.bytes is the
// chunk's.
template <class S>
XYL_FN void deliver_moved(S& s, const copied_call& c, const movement& m) {
  if (!m.receives(c.rank)) return;
  const range part = part_of_block(s, units_of(m.bytes, 16));
  const unsigned in_grain = grain_of(c.input, m.input_stride), out_grain = grain_of(c.output, m.output_stride);
  for (int i = 0; i < c.ranks; ++i) {
    const int p = rank_after(c, i);
    if (!m.sends(p)) continue;
    std::byte* const to = c.output + m.output_stride * static_cast<unsigned>(p);
    if (p == c.rank)
      copy_piece(s, to, c.input + m.input_stride * static_cast<unsigned>(p), m.bytes,
                 in_grain < out_grain ? in_grain : out_grain, part);
    else
      deliver_piece(s, c, to, m.bytes, out_grain, part, c.share_of(p) + part.begin * 16, c.rank);
  }
}

// And where the pieces are added up: the input is this rank's own piece.
template <class S, class R>
XYL_FN void reduce_moved(S& s, const copied_call& c, const R& red) {
  const range part = part_of_block(s, units_of(c.count, per_unit(red)));
  reduce_in_rank_order(s, c, red, part, [&](int p) { return c.share_of(p) + part.begin * 16; });
}

}  // namespace xyl
