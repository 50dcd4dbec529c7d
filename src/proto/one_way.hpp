// SPDX-License-Identifier: BSD-3-Clause
//
// Small messages of the collectives in which data goes one way (broadcast, gather, scatter, reduce): who only sends
// does not wait for who gets it. Every pair of ranks has a ring of slots in the receiver's workspace, and both
// number its messages, from 1 and for ever, in memory of their own, as in transfer.hpp:
//
//   a slot is free      once the receiver's credit flag has come to the number of the message that used it before
//   a message is there  once its header, put behind the data, carries its number
//
// Such a call has no epoch: two calls with epochs may have any number of them in between, and slots of calls with
// epochs stay two. What a header is for is kept: it carries the fingerprint, and no output is touched before those
// of all messages that a rank gets have been compared. A rank that gets none has nothing to compare; so the caller
// gives every call a fingerprint in which those of all one-way calls before it are: calls that differ are found at
// the next one in which the ranks meet. (Host memory; of calls with epochs and these in another order on two ranks,
// both of which wait, see communicator::has_called_another.)
//
// Launches are of one block. Relies on announce() and hear() to order like post and await.
#pragma once

#include "proto/exchange.hpp"
#include "proto/reduce_to.hpp"

namespace xyl {

// Where a space can tell that a call lies between two calls with epochs, poison of the one that comes next is of no
// concern to it.
template <class S>
XYL_FN bool begin_one_way(S& s) {
  if constexpr (requires { s.begin_one_way(); })
    return s.begin_one_way();
  else
    return s.begin_pair();
}

// Messages of the same size are expected to follow.
inline constexpr std::uint64_t one_way_ahead = 3;

// Where a message in a slot ends, header included.
template <class Call>
XYL_FN std::uint64_t end_of_lines(const Call& c, std::uint64_t bytes) {
  return c.map.one_way_data(bytes) + bytes;
}

// One message of this rank for `peer`: push(offset) writes the data to that offset of the peer's workspace.
template <class S, class Call, class Push>
XYL_FN bool send_one_way(S& s, const Call& c, int peer, std::uint64_t bytes, Push push) {
  std::uint64_t* const counter =
      at_own<std::uint64_t>(c, c.map.one_way_counter(static_cast<unsigned>(peer), false));
  const std::uint64_t number = *counter + 1, slots = c.map.one_way_slots;
  bool good = true;
  if (s.lane() == 0 && number > slots)
    // Acquire: the receiver's loads of the slot come before this rank's stores.
    good =
        s.await(at<const flag>(c, c.rank, c.map.flag_offset(flag_family::one_way, static_cast<unsigned>(peer), 0)),
                number - slots, waiting{peer, phase::credit});
  if (!s.all(good)) return false;
  const std::uint64_t slot = c.map.one_way_offset(static_cast<unsigned>(c.rank), number);
  push(slot + c.map.one_way_data(bytes));
  s.sync();  // the lane that announces speaks for the stores of all lanes
  if (s.lane() == 0) {
    // Release: the data is there before the header.
    announce(s, at<line>(c, peer, slot), c.fingerprint, static_cast<std::uint32_t>(number));
    *counter = number;
    // The lines of a later message come over while the next ones are written. (8 bytes took 120 ns without, 90 with
    // this, 70 with will_read_lines() too.)
    const std::uint64_t later = c.map.one_way_offset(static_cast<unsigned>(c.rank), number + one_way_ahead);
    will_write_lines(s, at<std::byte>(c, peer, later), end_of_lines(c, bytes));
  }
  return true;
}

// The next message of rank p.
template <class Call>
XYL_FN std::uint64_t next_one_way(const Call& c, int p) {
  const auto source = static_cast<unsigned>(p);
  return *at_own<const std::uint64_t>(c, c.map.one_way_counter(source, true)) + 1;
}
template <class Call>
XYL_FN std::uint64_t arrived_one_way(const Call& c, int p, std::uint64_t bytes) {
  return c.map.one_way_offset(static_cast<unsigned>(p), next_one_way(c, p)) + c.map.one_way_data(bytes);
}

// Waits for the next messages of all ranks p but this one for which from(p) holds, and compares them.
template <class S, class Call, class From>
XYL_FN bool await_one_way(S& s, const Call& c, std::uint64_t bytes, From from) {
  bool good = true;
  for (int p = static_cast<int>(s.lane()); p < c.ranks && good; p += static_cast<int>(s.lanes())) {
    if (p == c.rank || !from(p)) continue;
    const std::uint64_t number = next_one_way(c, p);
    const line* const header[1] = {
        at<const line>(c, c.rank, c.map.one_way_offset(static_cast<unsigned>(p), number))};
    std::uint64_t seen[1] = {};
    const waiting w{p, phase::header};
    const std::uint64_t later = c.map.one_way_offset(static_cast<unsigned>(p), number + 1);
    will_read_lines(s, at<std::byte>(c, c.rank, later), end_of_lines(c, bytes));
    // Acquire: the data was written before the header.
    good = hear<1>(s, header, static_cast<std::uint32_t>(number), seen, w);
    if (good && seen[0] != c.fingerprint) {
      s.refuse(w, c.fingerprint, seen[0]);
      good = false;
    }
  }
  return s.all(good);
}

// Those messages were read. Credits are given for half a ring at a time: see transfer.hpp.
template <class S, class Call, class From>
XYL_FN void release_one_way(S& s, const Call& c, From from) {
  s.sync();  // the lane that posts speaks for the loads of all lanes
  for (int p = static_cast<int>(s.lane()); p < c.ranks; p += static_cast<int>(s.lanes())) {
    if (p == c.rank || !from(p)) continue;
    const std::uint64_t number = next_one_way(c, p);
    *at_own<std::uint64_t>(c, c.map.one_way_counter(static_cast<unsigned>(p), true)) = number;
    // Release: what this block read there was read before the sender writes there again.
    if ((number & (c.map.one_way_slots / 2 - 1)) == 0)
      s.post(at<flag>(c, p, c.map.flag_offset(flag_family::one_way, static_cast<unsigned>(c.rank), 0)), number);
  }
}

// Broadcast, gather and scatter. m.bytes is limited by what a slot holds.
template <class S, class Call>
XYL_FN bool one_way_move(S& s, const Call& c, const movement& m) {
  if (!begin_one_way(s)) return false;
  const range all{0, units_of(m.bytes, 16)};
  const unsigned in_grain = grain_of(c.input, m.input_stride), out_grain = grain_of(c.output, m.output_stride);
  for (int k = 1; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    if (!m.goes(c.rank, p)) continue;
    const std::byte* const piece = c.input + m.input_stride * static_cast<unsigned>(p);
    const auto push = [&](std::uint64_t to) { push_piece(s, c, piece, m.bytes, in_grain, all, to, k, k); };
    if (!send_one_way(s, c, p, m.bytes, push)) return false;
  }
  if (!m.receives(c.rank)) return true;
  const auto gets_from = [&](int p) { return m.sends(p); };
  if (!await_one_way(s, c, m.bytes, gets_from)) return false;
  for (int k = 0; k < c.ranks; ++k) {
    const int p = rank_after(c, k);
    if (!m.sends(p)) continue;
    std::byte* const to = c.output + m.output_stride * static_cast<unsigned>(p);
    if (p == c.rank)
      copy_piece(s, to, c.input + m.input_stride * static_cast<unsigned>(p), m.bytes,
                 in_grain < out_grain ? in_grain : out_grain, all);
    else
      deliver_piece(s, c, to, m.bytes, out_grain, all, arrived_one_way(c, p, m.bytes), c.rank);
  }
  release_one_way(s, c, gets_from);
  return true;
}

// Reduce, in rank order. c.count is limited likewise.
template <class S, class Call, class R>
XYL_FN bool one_way_reduce(S& s, const Call& c, const R& red, int root) {
  if (!begin_one_way(s)) return false;
  const range all{0, units_of(c.count, per_unit(red))};
  const std::uint64_t bytes = bytes_in(red, all, c.count);
  if (c.rank != root) {
    const int hop = root > c.rank ? root - c.rank : root - c.rank + c.ranks;
    return send_one_way(s, c, root, bytes, [&](std::uint64_t to) { push_input(s, c, red, all, to, hop, hop); });
  }
  const auto anybody = [](int) { return true; };
  if (!await_one_way(s, c, bytes, anybody)) return false;
  reduce_in_rank_order(s, c, red, all, [&](int p) { return arrived_one_way(c, p, bytes); });
  release_one_way(s, c, anybody);
  return true;
}

}  // namespace xyl
