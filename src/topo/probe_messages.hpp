// SPDX-License-Identifier: BSD-3-Clause
// What a rank and its helper (xylem-probe) tell each other over their socket, and what ranks pass on to each other:
// values of fixed size. A helper's words go to other ranks, and theirs come back: whatever is used as an index is
// bounded first, and texts are ended by whoever reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "topo/probe_order.hpp"

namespace xyl::topo {

inline constexpr std::uint64_t probe_magic = 0x78796c70726f6265;  // "xylprobe"
inline constexpr std::uint32_t probe_version = 2;

// What became of a rank's part of a step. gone: its helper has ended, or was ended because it did not answer.
enum class probe_state : std::uint32_t { idle, done, failed, gone };

// Of a pair's memory.
enum class probe_verdict : std::uint8_t {
  untested,
  good,
  unreachable,  // the peer's memory could not be mapped
  dropped,      // what was written is not there
  wrong,        // something else is there
  silent,       // the access never ended
  unseen,       // it is there when kernels have ended, and not while they wait for it
};
[[nodiscard]] constexpr bool is_veto(probe_verdict v) {
  return v != probe_verdict::untested && v != probe_verdict::good;
}
[[nodiscard]] const char* name_of(probe_verdict verdict);

struct probe_setup {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint32_t rank;
  std::uint32_t on_host;
  std::uint8_t device[16];  // UUID of the GPU
  std::uint64_t seed;
  std::uint32_t step_ms;
  std::uint32_t round_trips;
};

struct probe_handle {
  std::uint8_t bytes[64];
};

struct probe_hello {
  std::uint32_t state;  // probe_state: done, or failed with a text
  std::uint32_t version;
  probe_handle handle;
  char text[128];
};

// Which helpers are there, and how their memory is reached.
struct probe_peers {
  std::uint8_t present[probe_most_ranks];
  probe_handle handle[probe_most_ranks];
};

struct probe_command {
  std::uint32_t kind;  // probe_kind
  std::uint32_t number;
  std::int32_t peer;       // or probe_step::everyone
  std::uint32_t is_first;  // flags, hand_over, take_over: whether this rank begins, or is the one
                           // whose rate is asked for
  std::uint32_t duration_us;
  std::uint32_t node;
  std::uint8_t skipped[probe_most_ranks];  // everyone but these
};

struct probe_answer {
  std::uint32_t state;  // probe_state
  std::uint32_t number;
  double value;  // GB/s, or microseconds of one way
  std::uint8_t verdict[probe_most_ranks];
  char text[112];
};

template <std::size_t N>
std::string text_in(const char (&text)[N]) {
  std::string read;
  for (char c : text) {
    if (c == '\0') break;
    read += c >= ' ' && c <= '~' ? c : '?';
  }
  return read;
}

template <std::size_t N>
void put_text(char (&to)[N], const std::string& text) {
  const std::size_t length = text.size() < N ? text.size() : N - 1;
  for (std::size_t i = 0; i < N; ++i) to[i] = i < length ? text[i] : '\0';
}

}  // namespace xyl::topo
