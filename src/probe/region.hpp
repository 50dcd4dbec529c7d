// SPDX-License-Identifier: BSD-3-Clause
//
// The memory that a helper lends to the other helpers, on devices and on the host: what lies where, and the words
// that prove a link. It starts zeroed; no word of a pattern is zero, so that what was dropped differs from what
// came wrong.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/function.hpp"
#include "topo/probe_order.hpp"

namespace xyl::probe {

inline constexpr std::size_t proof_words = 2048;  // 16 KB: more than any buffer on the way holds back unseen
inline constexpr std::size_t proof_bytes = proof_words * sizeof(std::uint64_t);
inline constexpr std::size_t stream_bytes = std::size_t{16} << 20;
inline constexpr std::size_t host_stream_bytes = std::size_t{4} << 20;

struct region {
  std::uint8_t nonce[128];  // of the setup; on the host only
  struct alignas(128) flag {
    std::uint64_t value;
  } flags[topo::probe_most_ranks];                                        // by the rank that writes it
  alignas(128) std::uint64_t own[proof_words];                            // for others to read
  alignas(128) std::uint64_t proof[topo::probe_most_ranks][proof_words];  // by the rank that writes it
  alignas(4096) std::byte stream[stream_bytes];
};

// What `from` writes at `index` for `to`; its own pattern is for itself. Words of different places differ.
XYL_FN std::uint64_t pattern(std::uint64_t seed, std::uint32_t from, std::uint32_t to, std::uint64_t index) {
  return (seed ^ (std::uint64_t{from} << 48 | std::uint64_t{to} << 32 | index)) * 0x9e3779b97f4a7c15ull | 1;
}

// A flag never goes back: steps are numbered, and so are the trips of each.
XYL_FN std::uint64_t flag_value(std::uint32_t step, std::uint32_t trip) {
  return (std::uint64_t{step} + 1) << 32 | trip;
}

// Trips before the clock is started.
inline constexpr std::uint32_t untimed_trips = 10;

}  // namespace xyl::probe
