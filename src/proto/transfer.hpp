// SPDX-License-Identifier: BSD-3-Clause
//
// Send and receive between a pair of ranks, of which no other rank knows. A message is divided among the blocks of
// the pair, equally on both sides because that depends on its size alone; each block sends its part in chunks
// through a ring of slots in the receiver's workspace. Chunks are numbered from 1 for each (sender, receiver,
// block), for ever; both ends count in their own memory, so that a launch that is replayed counts on.
//
//   a slot is free     once the receiver's credit flag, in the sender's workspace, has come to the number of the
//                      chunk that used it before (or to a later one)
//   a chunk is there   once the message flag has come to its number; where a launch is one lane, the header, put
//                      behind the data, says so as well
//   the header         carries the number and a fingerprint of count and type; the receiver stores nothing before
//                      it has compared that, and takes the communicator out of service if it differs
//
// Every message has at least one chunk, also one of no bytes: it too is compared. A sender is done when its last
// chunk is in its slot. A message may instead be offered whole, in one slot (see offer.hpp): the receiver takes it
// from the sender's buffer, and its credit for that slot lets the sender go. Long messages between devices have
// more room than a ring has: see long_transfer.hpp.
#pragma once

#include "proto/movement.hpp"
#include "proto/offer.hpp"

namespace xyl {

struct transfer {
  const std::byte* from = nullptr;  // of a send
  std::byte* to = nullptr;          // of a receive
  std::uint64_t bytes = 0;
  std::uint64_t fingerprint = 0;
  std::int32_t peer = 0;
  bool sends = false;
  bool offered = false;  // in one block, on a space that takes
  // The blocks of a launch that work on it.
  std::uint16_t first_block = 0;
  std::uint16_t blocks = 1;
  // Of a long one: bytes of a chunk.
  std::uint32_t slot_bytes = 0;

  XYL_FN bool is_long() const { return slot_bytes != 0; }
};

// A call whose next rank is the peer, which is where push_piece() puts what goes one step.
template <class Call>
struct toward_peer {
  std::int32_t rank, ranks;
  std::byte* const (&workspace)[Call::capacity];

  XYL_FN toward_peer(const Call& c, int peer)
      : rank(peer > 0 ? peer - 1 : c.ranks - 1), ranks(c.ranks), workspace(c.workspace) {}
};

// Messages of the same size are expected to follow.
inline constexpr std::uint64_t messages_ahead = 3;

// One block's part of one transfer, chunk by chunk: await() until the next can be moved, move() it. A caller with
// several of them can instead ask each whether it is ready().
template <class Call>
class transfer_part {
 public:
  // block: of the transfer's.
  XYL_FN transfer_part(const Call& c, const transfer& t, unsigned block) : t_(t), block_(block) {
    const std::uint64_t units = units_of(t.bytes, 16);
    const range mine = t.blocks == 1 ? range{0, units} : part_of(units, t.blocks, block);
    next_ = mine.begin * 16;
    end_ = mine.end * 16 < t.bytes ? mine.end * 16 : t.bytes;
    if (next_ > end_) next_ = end_;
    // Divisions would be a tenth of a small message.
    left_ = end_ - next_ <= c.map.pair_chunk ? 1 : units_of(end_ - next_, c.map.pair_chunk);
    if (t.offered) left_ = t.sends ? 2 : 1;  // steps: to offer, and to be told that it was taken
    number_ = *counter(c) + 1;
  }

  XYL_FN bool is_done() const { return left_ == 0; }

  // The verdict is the block's.
  template <class S>
  XYL_FN bool await(S& s, const Call& c) const {
    bool good = true;
    if (s.lane() == 0) good = t_.sends ? await_credit(s, c) : await_chunk(s, c);
    return s.all(good);
  }

  // Without waiting, where a space can tell. The number of a chunk that await() would not have to wait for.
  template <class S>
  bool is_ready(const Call& c) const {
    if (is_offered()) return S::reached(credit(c), number_);
    if (t_.sends) return number_ <= c.map.pair_slots || S::reached(credit(c), number_ - c.map.pair_slots);
    return S::arrived(at<const line>(c, c.rank, arrival(c)), tag());
  }

  // Moves the chunk that was awaited, and says so to the peer. False if it gave up.
  template <class S>
  XYL_FN bool move(S& s, const Call& c) {
    if constexpr (taking_space<S>)
      if (t_.offered) return move_offer(s, c);
    const std::uint64_t bytes = end_ - next_ < c.map.pair_chunk ? end_ - next_ : c.map.pair_chunk;
    const range units{0, units_of(bytes, 16)};
    const std::uint64_t slot = t_.sends ? departure(c) : arrival(c);
    const std::uint64_t data = slot + (is_beside_header<S>(c) ? sizeof(line) : layout::header_bytes);
    if (t_.sends) {
      push_piece(s, toward_peer(c, t_.peer), t_.from + next_, bytes, grain_of(t_.from, next_), units, data, 1, 1);
      tell_receiver(s, c, slot);
    } else {
      deliver_piece(s, c, t_.to + next_, bytes, grain_of(t_.to, next_), units, data, c.rank);
      s.sync();  // the lane that posts speaks for the loads of all lanes
      // Release: what this block read there was read before the sender writes there again.
      if (s.lane() == 0 && (number_ & (credit_step(c) - 1)) == 0)
        s.post(at<flag>(c, t_.peer, flag_of(c, flag_family::credit)), number_);
    }
    next_ += bytes;
    ++number_;
    if (--left_ == 0 && s.lane() == 0) *counter(c) = number_ - 1;
    return true;
  }

 private:
  // Whether the message is at the receiver's disposal.
  XYL_FN bool is_offered() const { return t_.offered && t_.sends && left_ == 1; }

  template <class S>
  bool move_offer(S& s, const Call& c) {
    bool good = true;
    if (t_.sends && left_ == 2) {
      if (s.lane() == 0) *at<offer>(c, t_.peer, departure(c) + sizeof(line)) = offer::of(t_.from, t_.bytes);
      tell_receiver(s, c, departure(c));
    } else {
      if (s.lane() == 0 && !t_.sends) {
        good = take_offer(s, *at<const offer>(c, c.rank, arrival(c) + sizeof(line)), t_.to, t_.bytes, t_.peer);
        // Release: the message was read before the sender's caller writes to its buffer.
        if (good) s.post(at<flag>(c, t_.peer, flag_of(c, flag_family::credit)), number_);
      }
      if (good && s.lane() == 0) *counter(c) = number_;
    }
    --left_;
    return s.all(good);
  }

  // Credits are given for half a ring at a time: the sender, who looks at them only when its ring is full, is held
  // up by that no more than by a slow receiver, and the flag's line travels seldom.
  static XYL_FN std::uint64_t credit_step(const Call& c) { return c.map.pair_slots / 2; }

  // The counters belong to this rank alone, and to one block.
  XYL_FN std::uint64_t* counter(const Call& c) const {
    const auto peer = static_cast<unsigned>(t_.peer);
    return at_own<std::uint64_t>(c,
                                 t_.sends ? c.map.sent_offset(peer, block_) : c.map.received_offset(peer, block_));
  }
  XYL_FN std::uint32_t tag() const { return static_cast<std::uint32_t>(number_); }
  XYL_FN std::uint64_t departure(const Call& c) const {
    return c.map.message_offset(static_cast<unsigned>(c.rank), block_, number_);
  }
  XYL_FN std::uint64_t arrival(const Call& c) const {
    return c.map.message_offset(static_cast<unsigned>(t_.peer), block_, number_);
  }
  // A flag that this rank writes in the peer's workspace.
  XYL_FN std::uint64_t flag_of(const Call& c, flag_family family) const {
    return c.map.flag_offset(family, static_cast<unsigned>(c.rank), block_);
  }
  XYL_FN const flag* credit(const Call& c) const {
    return at<const flag>(c, c.rank,
                          c.map.flag_offset(flag_family::credit, static_cast<unsigned>(t_.peer), block_));
  }
  template <class S>
  XYL_FN bool is_beside_header(const Call& c) const {
    return copying_space<S> && t_.bytes <= c.map.inline_bytes();
  }

  template <class S>
  XYL_FN bool await_credit(S& s, const Call& c) const {
    // Acquire: the receiver has read the message before this rank's caller writes to its buffer.
    if (is_offered()) return s.await(credit(c), number_, waiting{t_.peer, phase::taken});
    // Acquire: the receiver's loads of the slot come before this rank's stores.
    return number_ <= c.map.pair_slots ||
           s.await(credit(c), number_ - c.map.pair_slots, waiting{t_.peer, phase::credit});
  }

  template <class S>
  XYL_FN bool await_chunk(S& s, const Call& c) const {
    const waiting w{t_.peer, phase::message};
    const line* const header[1] = {at<const line>(c, c.rank, arrival(c))};
    std::uint64_t seen[1] = {};
    if (!s.template get_all<1>(header, tag(), seen, w)) return false;
    if (seen[0] != t_.fingerprint) {
      s.refuse(w, t_.fingerprint, seen[0]);
      return false;
    }
    if constexpr (is_single_lane<S>)
      return true;
    else
      // Acquire: the data was written before the flag.
      return s.await(
          at<const flag>(c, c.rank,
                         c.map.flag_offset(flag_family::message, static_cast<unsigned>(t_.peer), block_)),
          number_, w);
  }

  template <class S>
  XYL_FN void tell_receiver(S& s, const Call& c, std::uint64_t slot) const {
    s.sync();  // the lane that posts speaks for the stores of all lanes
    if (s.lane() != 0) return;
    // Where a launch is one lane this releases the data too.
    s.put(at<line>(c, t_.peer, slot), t_.fingerprint, tag());
    if (is_beside_header<S>(c)) {
      // The lines of a later message come over while the next ones are written.
      const std::uint64_t later =
          c.map.message_offset(static_cast<unsigned>(c.rank), block_, number_ + messages_ahead);
      will_write_lines(s, at<std::byte>(c, t_.peer, later), sizeof(line) + t_.bytes);
    }
    if constexpr (!is_single_lane<S>) s.post(at<flag>(c, t_.peer, flag_of(c, flag_family::message)), number_);
  }

  const transfer& t_;
  unsigned block_;
  std::uint64_t next_, end_;  // bytes of the message
  std::uint64_t left_;        // chunks
  std::uint64_t number_;      // of the next one
};

// What a rank has for itself goes straight to its place; this block's part of it.
template <class S>
XYL_FN void copy_to_self(S& s, const transfer& t, unsigned block) {
  const unsigned in_grain = grain_of(t.from, 0), out_grain = grain_of(t.to, 0);
  copy_piece(s, t.to, t.from, t.bytes, in_grain < out_grain ? in_grain : out_grain,
             part_of(units_of(t.bytes, 16), t.blocks, block));
}

// The transfer that this block of a launch belongs to, from its beginning to its end.
template <class S, class Call>
XYL_FN bool run_transfer(S& s, const Call& c, const transfer& t, unsigned block) {
  if (!s.begin_pair()) return false;
  transfer_part<Call> part(c, t, block);
  s.sync();  // all lanes have read the counter before one of them writes it
  while (!part.is_done()) {
    if (!part.await(s, c)) return false;
    if (!part.move(s, c)) return false;
  }
  return true;
}

}  // namespace xyl
