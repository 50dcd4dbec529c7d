// SPDX-License-Identifier: BSD-3-Clause
//
// The execution space: the small vocabulary in which every protocol is written once. CUDA blocks, host processes,
// host threads under ThreadSanitizer and a schedule explorer all speak it.
//
// A launch has blocks() blocks on every rank; block b of one rank works only with blocks b of the others. A block
// has lanes() lanes that run the protocol's text together. A verdict (bool) returned by all() is the same on every
// lane.
//
//   begin()            true, and epoch() is this call's, unless the communicator is already out of service
//   leave()            this block has done; the last thing a protocol does, also after giving up
//   begin_pair()       the same for work of a pair of ranks, which has no epoch of its own: any poison concerns it
//                      (begin_one_way(), where a space has it: likewise of what lies between two calls with epochs)
//   sync()             all lanes of the block have come here, and what each wrote is visible to the others
//   all(v)             sync(), and the conjunction of v over the lanes
//   post(f, e)         stores e with release order at system scope: whoever awaits e sees what this lane wrote
//                      before, and, after sync(), what its block wrote before
//   await(f, e, w)     acquire-waits until the flag holds at least e; false if it gave up
//   put(l, d, e)       the 8 bytes d, each half with e in one atomic 8-byte word; no order with anything else in
//                      this launch, except in a space of single lanes (below)
//   get_all<N>(l, e, d, w)  waits until N lines carry e (null lines are skipped), all loads issued before any is
//                      tested; d receives their payloads; false if it gave up. Line i's peer is
//                      w.peer + i % w.peers
//   refuse(w, want, saw)    a peer's header names another call: take the communicator out of service
//   load16/store16     16 bytes of this rank's or peers' memory, 16-byte aligned; load_peer16 for memory that peers
//                      write (never through a non-coherent path)
//
// And, where a space has them:
//
//   pack_lanes, put_packs(), get_packs()   lines of 128 bytes that are seen whole, see wide_packet.hpp
//   sheet_lanes, put_line(), get_lines()   lines of 16 bytes that are, see line_packet.hpp
//   single_lane        true: every launch is one block of one lane. Then put releases and get_all acquires, so that
//                      a header that is put behind data is the data's flag as well
//   copy(to, from, n)  n bytes, where one lane copies a range at once (ranged_reduction in bulk.hpp, movement.hpp)
//   stage(to, from, n) the same to where another rank will read; ordered by the next post or put, as stores are.
//                      wants_stage(): that it should be used where stores on the way could do
//   fetch_line(p)      hint: a lane will soon load from these line_bytes
//   will_write(p), will_read(p), has_written(p), let_go()   hints: soon it will write to memory of a peer, or read
//                      what a peer has written; a line for a peer is complete; and, before it looks for the answer
//                      of who sends at the same time, a moment for what was sent to get away
//   sent()             what this block sends first is on its way
//   received()         something of the peers' blocks of this index has come: they run. Both are where a space may
//                      let the next launch be scheduled; neither orders memory
//   announce(l, d, e), hear<N>(l, e, d, w)   put and get_all that order as post and await do (spaces of single
//                      lanes: put and get_all do)
//   begin_early(), read_turn(), join()   begin() in three parts: epoch() behind the second, the verdict by the third
//                      (see header.hpp)
//   part(total)        this block's part of [0, total), divided beforehand (part_of_block in partition.hpp)
//
// Launch boundaries: what a rank read and wrote in earlier launches happens before whatever a peer does in launches
// after the one in which it got a packet of this launch. The reuse of a slot rests on this where no flag was posted
// in between (bulk data, then a barrier or packets, then bulk data). On CUDA the order of kernels in a stream
// provides it and packets can be relaxed; a space whose launches are mere function calls must put with release and
// get with acquire.
//
// The waits end by themselves: on abort, on poison that concerns the call (poison::concerns), on the death of a
// peer, or at the deadline. Whoever gives up fills its rank's give_up_record and poisons every rank. Protocols
// contain no fences: ThreadSanitizer does not understand them, and a flag with release and acquire says all that is
// needed.
#pragma once

#include <concepts>
#include <cstdint>

#include "proto/layout.hpp"

namespace xyl {

struct waiting {
  int peer;
  phase what;
  int peers = 1 << 16;  // several lines of each of so many peers follow each other

  XYL_FN waiting of_line(int i) const { return {peer + i % peers, what}; }
};

struct alignas(16) unit16 {
  std::uint32_t word[4];
};

// Hints are for messages up to so many bytes; longer ones are streams, of which processors take care themselves.
inline constexpr std::uint64_t hinted_bytes = 4096, hinted_line = 64;

// Says whether a space is one of single lanes.
template <class S>
inline constexpr bool is_single_lane = requires {
  requires S::single_lane;
};

template <class S>
XYL_FN void announce(S& s, line* l, std::uint64_t data, std::uint32_t packet) {
  if constexpr (is_single_lane<S>)
    s.put(l, data, packet);
  else
    s.announce(l, data, packet);
}
template <int N, class S>
XYL_FN bool hear(S& s, const line* const (&lines)[N], std::uint32_t packet, std::uint64_t (&data)[N], waiting w) {
  if constexpr (is_single_lane<S>)
    return s.template get_all<N>(lines, packet, data, w);
  else
    return s.template hear<N>(lines, packet, data, w);
}
// Units of the user's buffers that nothing here looks at again: they need not stay in a cache for which there is
// better use.
template <class S>
XYL_FN unit16 load_once(S& s, const unit16* from) {
  if constexpr (requires { s.load_once16(from); })
    return s.load_once16(from);
  else
    return s.load16(from);
}
template <class S>
XYL_FN void store_once(S& s, unit16* to, const unit16& data) {
  if constexpr (requires { s.store_once16(to, data); })
    s.store_once16(to, data);
  else
    s.store16(to, data);
}
// A hint: the lanes together will soon read these units of the user's buffer.
template <class S>
XYL_FN void will_load_units(S& s, const std::byte* buffer, std::uint64_t begin, std::uint64_t end) {
  if constexpr (requires { s.fetch_line(buffer); }) {
    constexpr unsigned units_of_line = S::line_bytes / 16;
    for (std::uint64_t u = begin + s.lane() * units_of_line; u < end; u += s.lanes() * units_of_line)
      s.fetch_line(buffer + u * 16);
  }
}
// Hints, of as many of those bytes' first lines as may be on their way together.
template <class S>
XYL_FN void will_write_lines(S& s, const std::byte* there, std::uint64_t bytes) {
  if constexpr (requires { s.will_write(there); })
    for (std::uint64_t at = 0; at < bytes && at < hinted_bytes; at += hinted_line) s.will_write(there + at);
}
template <class S>
XYL_FN void will_read_lines(S& s, const std::byte* there, std::uint64_t bytes) {
  if constexpr (requires { s.will_read(there); })
    for (std::uint64_t at = 0; at < bytes && at < hinted_bytes; at += hinted_line) s.will_read(there + at);
}
template <class S>
XYL_FN void has_written(S& s, const void* there) {
  if constexpr (requires { s.has_written(there); }) s.has_written(there);
}
template <class S>
XYL_FN void has_written_lines(S& s, const std::byte* there, std::uint64_t bytes) {
  if constexpr (requires { s.has_written(there); })
    for (std::uint64_t at = 0; at < bytes && at < hinted_bytes; at += hinted_line) s.has_written(there + at);
}
template <class S>
XYL_FN void let_go(S& s) {
  if constexpr (requires { s.let_go(); }) s.let_go();
}

// Of spaces that copy: to where another rank will read.
template <class S>
void stage(S& s, std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if constexpr (requires { s.stage(to, from, bytes); })
    s.stage(to, from, bytes);
  else
    s.copy(to, from, bytes);
}

template <class S>
XYL_FN void sent(S& s) {
  if constexpr (requires { s.sent(); }) s.sent();
}
template <class S>
XYL_FN void received(S& s) {
  if constexpr (requires { s.received(); }) s.received();
}

template <class S>
concept execution_space = requires(S& s, flag* f, const flag* cf, line* l, const line* const (&lines)[2],
                                   std::uint64_t (&data)[2], epoch_t e, std::uint32_t packet, waiting w, unit16* u,
                                   const unit16* cu, unit16 v, std::uint64_t d, bool b) {
  { s.begin() } -> std::same_as<bool>;
  { s.begin_pair() } -> std::same_as<bool>;
  { s.epoch() } -> std::same_as<epoch_t>;
  {s.leave()};
  { s.lane() } -> std::convertible_to<unsigned>;
  { s.lanes() } -> std::convertible_to<unsigned>;
  { s.block() } -> std::convertible_to<unsigned>;
  { s.blocks() } -> std::convertible_to<unsigned>;
  {s.sync()};
  { s.all(b) } -> std::same_as<bool>;
  {s.post(f, e)};
  { s.await(cf, e, w) } -> std::same_as<bool>;
  {s.put(l, d, packet)};
  { s.template get_all<2>(lines, packet, data, w) } -> std::same_as<bool>;
  {s.refuse(w, d, d)};
  { s.load16(cu) } -> std::same_as<unit16>;
  { s.load_peer16(cu) } -> std::same_as<unit16>;
  {s.store16(u, v)};
};

}  // namespace xyl
