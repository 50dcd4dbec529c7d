// SPDX-License-Identifier: BSD-3-Clause
//
// What one rank hands to a protocol: a plain struct, passed by value to kernels. Loop bounds and addresses come
// from here, never from memory a peer writes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/layout.hpp"

namespace xyl {

enum class collective : std::uint8_t {
  barrier,
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send,
  receive,
  split,
  fused_all_reduce,
  window_register,
  window_deregister
};

// Where a buffer lies that is used in place by other ranks: in which registered window and how far into it. One
// word, 0 for no window, which must be equal on all ranks.
struct window_place {
  static constexpr std::uint64_t most_windows = 0xfffe, most_bytes = 1ull << 47;
  // The input is where the output will be: what is pulled must know it of everybody.
  static constexpr std::uint64_t in_place = most_bytes;

  static constexpr std::uint64_t pack(std::uint64_t window, std::uint64_t offset) {
    return (window + 1) << 48 | offset;
  }
  static constexpr std::uint64_t window(std::uint64_t word) { return (word >> 48) - 1; }
  static constexpr std::uint64_t offset(std::uint64_t word) { return word & (most_bytes - 1); }
};

// The arguments that must be equal on all ranks, in a form that can be printed on both sides of a mismatch.
struct call_record {
  collective what = collective::barrier;
  std::uint8_t type = 0;         // xylDataType_t
  std::uint8_t operation = 0;    // xylRedOp_t; fused: xylFusedPattern_t
  std::uint8_t device = 0;       // 1: device memory
  std::uint32_t root = 0;        // or the peer of a send or receive; fused: what is given
  std::uint64_t count = 0;       // elements of the whole call; fused: tokens
  std::uint64_t selection = 0;   // hash of the agreed selection table
  std::uint64_t more = 0;        // fused: hidden, and the bits of eps
  std::uint64_t send_place = 0;  // a window_place each, of buffers that peers may use in place
  std::uint64_t recv_place = 0;
};
static_assert(sizeof(call_record) == sizeof(give_up_record::call));

// A mixing of all fields in which every bit matters (the finaliser of SplitMix64, Steele et al. 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

constexpr std::uint64_t fingerprint(const call_record& r, collective what, std::uint32_t root) {
  const std::uint64_t small = static_cast<std::uint64_t>(what) | static_cast<std::uint64_t>(r.type) << 8 |
                              static_cast<std::uint64_t>(r.operation) << 16 |
                              static_cast<std::uint64_t>(r.device) << 24 | static_cast<std::uint64_t>(root) << 32;
  const std::uint64_t mixed = mix64(mix64(mix64(small + 0x9e3779b97f4a7c15ull) ^ r.count) ^ r.selection);
  if ((r.more | r.send_place | r.recv_place) == 0) return mixed;
  return mix64(mix64(mix64(mixed ^ r.more) + r.send_place) ^ r.recv_place);
}

constexpr std::uint64_t fingerprint(const call_record& r) { return fingerprint(r, r.what, r.root); }
// Of a send or a receive: what must be equal on both sides, count and type.
constexpr std::uint64_t fingerprint_of_pair(const call_record& r) { return fingerprint(r, collective::send, 0); }

// Where a rank sits in the ring that a ring allreduce follows; all ranks must have seats of the same ring. Unset,
// the ring goes in rank order.
struct ring_seat {
  std::int32_t place = -1;  // 0 .. ranks - 1: also the number of the share that this rank finishes
  std::int32_t next = -1;   // ranks
  std::int32_t previous = -1;

  XYL_FN constexpr bool is_set() const { return place >= 0; }
  static XYL_FN constexpr ring_seat in_rank_order(std::int32_t rank, std::int32_t ranks) {
    return {rank, rank + 1 < ranks ? rank + 1 : 0, rank > 0 ? rank - 1 : ranks - 1};
  }
};

// Capacity: the most ranks the struct has room for.
template <int Capacity>
struct call {
  static constexpr int capacity = Capacity;
  // What every call looks at first lies together: a GPU reads this from constant memory, a line at a time.
  const std::byte* input = nullptr;   // this rank's elements; element aligned
  std::byte* output = nullptr;        // may equal input
  const std::byte* addend = nullptr;  // see addend.hpp; elements like the input's, may equal output
  std::uint64_t count = 0;            // elements of this chunk
  std::uint64_t fingerprint = 0;
  // What no peer looks at (the turn, counters of pairs, team lines, scratch) lies from here on, at the offsets of
  // the layout; null: in this rank's workspace. It is elsewhere where workspaces lie in memory that this rank
  // reaches slowly.
  std::byte* own = nullptr;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  ring_seat ring;
  // Units that a block of a one-shot sends before it takes as many, or a block of a two-shot of each share; the same
  // on all ranks. 0: all at once. One-shot kernels for a constant number of ranks look at it only between two.
  std::uint32_t step_units = 0;
  // Two-shot: peers come for what is theirs (see two_shot.hpp).
  bool pulls = false;
  layout map;
  std::byte* workspace[Capacity] = {};  // every rank's workspace, as this rank reaches it
  call_record record;                   // of the whole call
};

}  // namespace xyl
