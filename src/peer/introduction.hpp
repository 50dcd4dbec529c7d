// SPDX-License-Identifier: BSD-3-Clause
//
// What ranks tell each other through the caller's allgather: first who they are (introduction), later whether all
// is well (report). Fixed sizes, plain bytes; its first fields never move, so that two versions can at least tell
// each other apart. The allgather is trusted: it is what makes the random parts a secret. check_introductions gives
// the same verdict on every rank, since all of them judge the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "os/machine.hpp"
#include "proto/layout.hpp"

namespace xyl {

// Changes whenever the workspace, a message or the course of initialisation changes its meaning.
inline constexpr std::uint32_t wire_version = 7;

// What a rank has come to, with as much of its sentence as has room.
struct report {
  std::int32_t code;  // xylResult_t
  char text[252];

  static report of(const result& r);
};

using secret_bytes = std::array<std::uint8_t, 32>;

struct introduction {
  std::uint64_t magic;
  std::uint32_t wire;
  std::uint32_t library;  // XYL_VERSION_CODE
  std::uint32_t control_bytes;
  std::uint32_t record_bytes;
  std::int32_t rank;
  std::int32_t ranks;
  layout map;
  boot_identity boot;
  process_token process;
  std::int64_t process_number;
  std::uint64_t process_space;  // see process_namespace()
  std::int32_t memory_fd;       // of the workspace, in that process
  char socket[44];              // name of the process's listening socket, ends with 0
  secret_bytes secret_part;
  std::uint8_t nonce[32];  // also in the workspace's control_block
  report state;            // of the rank's own preparation
  std::uint8_t reserved[392];

  // Fills everything that describes this library and this process, and the random parts.
  static result make(int rank, const layout& map, introduction& out);
};
// Of every version: an allgather of different sizes would be an overrun.
static_assert(sizeof(introduction) == 1024);

// "rank 5 (process 4711)"
std::string name_of(int rank, std::int64_t process_number);

result check_introductions(std::span<const introduction> all, int rank);

// `mine` if it failed; else the first rank that failed, as xylRemoteError with its text.
result verdict(result mine, std::span<const report> all, std::span<const introduction> names);

// Known to the group's ranks alone, since every part went through the allgather only.
secret_bytes common_secret(std::span<const introduction> all);

}  // namespace xyl
