// SPDX-License-Identifier: BSD-3-Clause
//
// Send and receive of a message that is long: through the sender's region of the receiver's bulk data, which has
// more room than the pair's rings, so that more blocks work on it with larger chunks. Chunks have numbers, flags
// and counters as in transfer.hpp; here a message begins with a number of its own:
//
//   the header          says what the message is, in the ring where one of another kind would say it
//   credit for that     the receiver is in its launch, and the sender may write
//   credit for a chunk  given for two at a time; for the last in any case, and the sender waits for that
//
// So both ends are in this launch whenever the region is in use. Neither can be a call with an epoch ahead of the
// other then, since that takes both; and whoever has ended such a call knows that all ranks have ended the one
// before it. The slot of that one is the slot of the next one too, which this rank is not in: nobody reads there,
// and only the sender writes to its region. (Other ranks may be in that next call. Until they have this rank's
// header they write to their own regions alone.)
#pragma once

#include "proto/transfer.hpp"

namespace xyl {

// The message from its beginning to its end, as one block of it sees it.
template <class S, class Call>
class long_transfer {
 public:
  XYL_FN long_transfer(S& s, const Call& c, const transfer& t, unsigned block)
      : s_(s), c_(c), t_(t), block_(block) {
    // Parts begin at whole lines.
    const std::uint64_t total = units_of(t.bytes, 16), each = (units_of(total, t.blocks) + 7) / 8 * 8;
    begin_ = block * each < total ? block * each : total;
    units_ = static_cast<std::uint32_t>(total - begin_ < each ? total - begin_ : each);
    const auto chunks = static_cast<std::uint32_t>(units_of(units_, units_of_chunk()));
    first_ = *counter() + 1;
    chunks_ = chunks == 0 ? 1 : chunks;
  }

  // Of one direction alone.
  XYL_FN bool send() {
    if (!say_what_comes() || !is_welcome()) return false;
#pragma unroll 1
    for (std::uint32_t k = 0; k < chunks(); ++k) {
      if (k >= layout::long_slots && k % credit_step == 0 && !may_write(first_ + k)) return false;
      push(k);
    }
    return was_taken();
  }
  XYL_FN bool receive() {
    const unsigned grain = grain_of(t_.to, 0);
    welcome();
    if (!is_what_was_said()) return false;
    const auto deliver = [&](range units, std::uint64_t at) {
      deliver_piece<false>(s_, c_, t_.to, t_.bytes, grain, units, at, c_.rank);
    };
#pragma unroll 1
    for (std::uint32_t k = 0; k < chunks(); ++k)
      if (!take(k, deliver)) return false;
    return count();
  }

  // The steps of both, for who does both at once. At least one chunk, which may be empty; the same number on both
  // sides. welcome() waits for nobody.
  XYL_FN std::uint32_t chunks() const { return chunks_; }
  XYL_FN range chunk(std::uint32_t k) const {
    const std::uint32_t from = k * units_of_chunk(), left = units_ - from;
    return {begin_ + from, begin_ + from + (left < units_of_chunk() ? left : units_of_chunk())};
  }
  // Release: what this rank did in earlier launches, in that region too, comes before the sender's stores.
  XYL_FN void welcome() {
    if (s_.lane() == 0) give_credit(first_);
  }

  XYL_FN bool say_what_comes() {
    bool good = true;
    if (s_.lane() == 0) {
      // The line is free once what it said last was heard.
      if (block_ < c_.map.pair_blocks && first_ > c_.map.pair_slots)
        good = s_.await(at<const flag>(c_, c_.rank, flag_of(flag_family::credit, t_.peer)),
                        first_ - c_.map.pair_slots, waiting{t_.peer, phase::credit});
      if (good) s_.put(at<line>(c_, t_.peer, header_of(c_.rank)), t_.fingerprint, tag());
    }
    return s_.all(good);
  }
  XYL_FN bool is_welcome() { return await(flag_family::credit, first_, phase::credit); }

  XYL_FN bool is_what_was_said() {
    bool good = true;
    if (s_.lane() == 0) {
      const waiting w{t_.peer, phase::message};
      const line* const header[1] = {at<const line>(c_, c_.rank, header_of(t_.peer))};
      std::uint64_t seen[1] = {};
      good = s_.template get_all<1>(header, tag(), seen, w);
      if (good && seen[0] != t_.fingerprint) {
        s_.refuse(w, t_.fingerprint, seen[0]);
        good = false;
      }
    }
    return s_.all(good);
  }

  // Where the slot is free.
  XYL_FN void push(std::uint32_t k) {
    push_piece(s_, toward_peer(c_, t_.peer), t_.from, t_.bytes, grain_of(t_.from, 0), chunk(k), place(k), 1, 1);
    s_.sync();  // the lane that posts speaks for the stores of all lanes
    // The other lanes go on meanwhile.
    if (speaks()) s_.post(at<flag>(c_, t_.peer, flag_of(flag_family::message, c_.rank)), first_ + 1 + k);
  }

  // use(chunk(k), where it lies in this rank's workspace). Credited: what has been taken is told now and then, not
  // only at the end.
  template <bool Credited = true, class Use>
  XYL_FN bool take(std::uint32_t k, Use use) {
    const std::uint64_t number = first_ + 1 + k;
    // Acquire: the data was written before the flag.
    if (!await(flag_family::message, number, phase::message)) return false;
    use(chunk(k), place(k));
    if ((!Credited || k % credit_step != credit_step - 1) && number != last()) return true;
    s_.sync();  // the lane that posts speaks for the loads of all lanes
    // Release: what this block read there was read before the sender writes there again.
    if (speaks()) give_credit(number);
    return true;
  }

  XYL_FN bool was_taken() { return await(flag_family::credit, last(), phase::credit) && count(); }
  // After the last chunk.
  XYL_FN bool count() const {
    if (s_.lane() == 0) *counter() = last();
    return true;
  }

 private:
  // The lane that posts is not the one that waits: what a post waits for takes its time.
  XYL_FN bool speaks() const { return s_.lane() == s_.lanes() - 1; }

  // Half of the slots: the sender fills the others meanwhile.
  static constexpr unsigned credit_step = layout::long_slots / 2;

  // Only this rank, and this block, counts here. After a barrier that all lanes came to later than to the counter.
  XYL_FN std::uint64_t* counter() const {
    const auto peer = static_cast<unsigned>(t_.peer);
    return at_own<std::uint64_t>(
        c_, t_.sends ? c_.map.sent_offset(peer, block_) : c_.map.received_offset(peer, block_));
  }
  XYL_FN std::uint64_t last() const { return first_ + chunks_; }
  XYL_FN unsigned units_of_chunk() const { return t_.slot_bytes / 16; }
  XYL_FN std::uint64_t place(std::uint32_t k) const {
    const auto sender = static_cast<unsigned>(t_.sends ? c_.rank : t_.peer);
    return c_.map.long_slots_offset(c_.map.slot(s_.epoch()), sender, block_, t_.slot_bytes) +
           k % layout::long_slots * t_.slot_bytes;
  }
  XYL_FN std::uint64_t flag_of(flag_family family, int writer) const {
    return c_.map.flag_offset(family, static_cast<unsigned>(writer), block_);
  }
  XYL_FN std::uint64_t header_of(int sender) const {
    const auto source = static_cast<unsigned>(sender);
    return block_ < c_.map.pair_blocks ? c_.map.message_offset(source, block_, first_)
                                       : c_.map.long_header_offset(source, block_);
  }
  XYL_FN std::uint32_t tag() const { return static_cast<std::uint32_t>(first_); }

  XYL_FN bool await(flag_family family, std::uint64_t number, phase what) {
    bool good = true;
    if (s_.lane() == 0)
      good = s_.await(at<const flag>(c_, c_.rank, flag_of(family, t_.peer)), number, waiting{t_.peer, what});
    return s_.all(good);
  }
  // Acquire: the receiver's loads of the slot come before this rank's stores.
  XYL_FN bool may_write(std::uint64_t after) {
    return await(flag_family::credit, after - layout::long_slots + credit_step, phase::credit);
  }
  XYL_FN void give_credit(std::uint64_t number) {
    s_.post(at<flag>(c_, t_.peer, flag_of(flag_family::credit, c_.rank)), number);
  }

  S& s_;
  const Call& c_;
  const transfer& t_;
  const unsigned block_;
  // Units of the message: a block's part is below 64 GB.
  std::uint64_t begin_;
  std::uint32_t units_, chunks_;
  std::uint64_t first_;  // number
};

template <class S, class Call>
XYL_FN bool run_long_transfer(S& s, const Call& c, const transfer& t, unsigned block) {
  if (!s.begin_pair()) return false;
  long_transfer<S, Call> part(s, c, t, block);
  return t.sends ? part.send() : part.receive();
}

}  // namespace xyl
