// SPDX-License-Identifier: BSD-3-Clause
//
// The environment variables XYLEM_*, typed. One table (parameter_table) says everything about each: the reader, the
// error texts and xylem(7) are made from it. Nothing is guessed: a malformed or out-of-range value or an unknown
// XYLEM_ name fails with a sentence that names the variable, what it holds and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/launch_overlap.hpp"
#include "base/log.hpp"
#include "base/result.hpp"

namespace xyl {

// Defined in proto/algorithm.hpp, a floor above; an opaque declaration makes it a complete type here.
enum class algorithm : std::uint8_t;
// The same in proto/sync_path.hpp.
enum class sync_path : std::uint8_t;

// The most capable instructions that host reductions may use.
enum class instruction_set : std::uint8_t { automatic, baseline, avx2, avx512 };

// Whether long messages in host memory are read from the sender's buffer.
enum class single_copy_use : std::uint8_t { never, always };

// Whether, and how, ranks read each other's buffers where they lie.
enum class pull_use : std::uint8_t { automatic, never, one_shot, two_shot, staged };
// Whether GPUs write into each other's memory: where all of them can, not at all (they meet in host memory), or,
// else an error, all of them.
enum class peer_to_peer_use : std::uint8_t { automatic, never, always };
// Whether links between GPUs are proven and measured at the start: where several GPUs are in use and nothing is
// kept of an earlier time, always, or never.
enum class probe_use : std::uint8_t { automatic, always, never };

// Whether thresholds are measured at the start: never, but kept ones are used; where none are kept; always; never,
// and kept ones are not looked at.
enum class tune_use : std::uint8_t { cached, missing, always, never };

struct parameters {
  log_level debug = log_level::warn;
  std::int64_t timeout_ns = 600'000'000'000;
  std::int64_t timeout_warning_ns = 10'000'000'000;  // 0: never
  std::optional<algorithm> forced_algorithm;
  bool use_gpu = true;
  peer_to_peer_use peer_to_peer = peer_to_peer_use::automatic;
  std::optional<std::uint64_t> packet_bytes;
  std::optional<std::uint64_t> two_step_bytes;
  std::optional<std::uint64_t> one_shot_bytes;
  std::optional<std::uint64_t> copy_engine_bytes;  // 0: never
  std::optional<int> max_blocks;
  launch_overlap overlap = launch_overlap::automatic;
  std::optional<sync_path> forced_sync;
  bool forced_sync_overlaps = false;  // it was named with +pdl
  bool list_sync = false;
  bool deterministic = false;
  single_copy_use single_copy = single_copy_use::never;
  pull_use pull = pull_use::automatic;
  instruction_set host_instructions = instruction_set::automatic;
  std::int64_t connect_timeout_ns = 10'000'000'000;
  std::string socket_interfaces;  // empty: all
  std::string topology_file;      // empty: the machine itself is looked at
  std::string topology_override;  // empty: none
  std::string plan_file;          // empty: none
  probe_use probe = probe_use::automatic;
  std::string probe_helper;  // empty: the installed one
  tune_use tune = tune_use::cached;
};

struct parameter_info {
  const char* name;
  const char* type;           // choice, seconds, size, count, switch, names or path
  const char* default_value;  // as it would be typed, or in words where no value says the same
  const char* unit;           // "" where there is none
  const char* allowed;        // completes the sentence "allowed: ..."
  const char* help;           // one sentence
  // Stores the value, or returns false: not allowed.
  bool (*store)(std::string_view text, parameters& out);
};

std::span<const parameter_info> parameter_table();

// Names that are accepted but mean something to scripts and tools only.
std::span<const char* const> foreign_parameter_names();

// environment: entries NAME=VALUE, ended by a null pointer, as `environ`. An empty value counts as unset.
// Everything that is wrong is said in one text. On failure (xylInvalidUsage) out is untouched.
result read_parameters(const char* const* environment, parameters& out);

}  // namespace xyl
