// SPDX-License-Identifier: BSD-3-Clause
//
// Two ranks swap long messages of one size, in pieces: what is pushed of one is on its way while the one before is
// worked on, and blocks drift apart, so that the link never rests. What large collectives of two devices are made
// of: an allgather or alltoall puts what comes in its place, a reduction joins it with what this rank has.
//
// Every block both sends and receives, the same pieces of both messages. It has read and sent a piece before it
// takes the peer's, so the output may be the input. Nobody gives credit for a slot: whoever pushes piece k has taken
// the peer's k - 1 - ahead, and the peer has pushed that behind its take of this rank's k - 2 - 2 ahead.
#pragma once

#include "proto/bulk.hpp"
#include "proto/long_transfer.hpp"

namespace xyl {

// Both of the same peer, bytes, blocks, slot_bytes and fingerprint. in.to is not used by a reduction.
struct swapped {
  transfer out, in;
};

// use(units of the message, where those of the peer lie in this rank's workspace): it may also see to this rank's
// own. One block's part.
template <class S, class Call, class Use>
XYL_FN bool run_long_swap(S& s, const Call& c, const swapped& both, unsigned block, Use use) {
  constexpr std::uint32_t ahead = 1;
  static_assert(2 + 2 * ahead <= layout::long_slots);
  if (!s.begin_pair()) return false;
  long_transfer<S, Call> out(s, c, both.out, block), in(s, c, both.in, block);
  // Each welcomes the other before it waits.
  in.welcome();
  if (!out.say_what_comes() || !in.is_what_was_said() || !out.is_welcome()) return false;
  for (std::uint32_t k = 0; k < out.chunks() + ahead; ++k) {
    if (k < out.chunks()) out.push(k);
    if (k >= ahead && !in.template take<false>(k - ahead, use)) return false;
  }
  return in.count() && out.was_taken();
}

// Data that is only moved: the peer's message to in.to, and this rank's own, as long, from `own` to `own_to`.
template <class S, class Call>
XYL_FN bool swap_messages(S& s, const Call& c, const swapped& both, const std::byte* own, std::byte* own_to,
                          unsigned block) {
  const transfer& in = both.in;
  const unsigned grain = grain_of(in.to, 0),
                 own_grain = grain_of(own, 0) < grain_of(own_to, 0) ? grain_of(own, 0) : grain_of(own_to, 0);
  return run_long_swap(s, c, both, block, [&](range units, std::uint64_t at) {
    copy_piece(s, own_to, own, in.bytes, own_grain, units);
    deliver_piece(s, c, in.to, in.bytes, grain, units, at, c.rank);
  });
}

// A reduction of two ranks: c.output becomes c.input joined, in rank order, with the peer's message.
template <class S, class Call, class R>
XYL_FN bool swap_and_reduce(S& s, const Call& c, const R& red, const swapped& both, unsigned block) {
  return run_long_swap(s, c, both, block, [&](range units, std::uint64_t at) {
    reduce_in_rank_order(s, c, red, units, [&](int) { return at; });
  });
}

}  // namespace xyl
