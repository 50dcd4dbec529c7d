// SPDX-License-Identifier: BSD-3-Clause
//
// The command line of xylem-perf. Flags mean what they mean in nccl-tests. Everything that can be refused without
// looking at the machine is refused here, in a sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/perf_model.hpp"
#include "xylem/xylem.h"

namespace xyl {

enum class memory_choice { automatic, host, device };

inline constexpr int all_roots = -1;

struct perf_options {
  std::string collective;  // or another subcommand; empty: nothing is measured
  bool describe = false;
  std::uint64_t least_bytes = 8;
  std::uint64_t most_bytes = 16ull << 20;
  std::uint64_t step_factor = 2;  // 1: add step_bytes instead
  std::uint64_t step_bytes = 0;
  int iterations = 0;  // 0: as many as make the clock exact
  int warmup_iterations = 5;
  int aggregated_calls = 1;
  int repetitions = 5;
  int graph_launches = 0;  // 0: no graph
  int checks = 1;
  int registration = 0;  // 0: buffers are not registered
  std::vector<xylDataType_t> types = {xylFloat32};
  std::vector<xylRedOp_t> operations = {xylSum};
  int root = 0;     // all_roots: one line for each
  int threads = 1;  // of a process
  int ranks_per_thread = 1;
  memory_choice memory = memory_choice::automatic;
  bool compare = false;
  bool rewrite = false;  // inputs, before every timed call
  model_options model;   // of decode and fused
  std::string json_file;
  std::string csv_file;
};

enum class subcommand_kind { collective, decode, fused };

// What a subcommand is called and does.
struct subcommand {
  const char* name;
  const char* help;
  subcommand_kind kind = subcommand_kind::collective;
};

// What is to happen after the command line was read: go on (exit_code < 0), or print and leave.
struct command_line_outcome {
  int exit_code = -1;
  std::string output;  // for stdout
  std::string error;   // for stderr
};

// Exit codes of the tool.
inline constexpr int exit_wrong_result = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_failure = 3;

command_line_outcome read_command_line(int argc, const char* const* argv, std::span<const subcommand> subcommands,
                                       const std::string& version, perf_options& out);

// The message sizes in order; whole elements are made of them later.
std::vector<std::uint64_t> sizes_of(const perf_options& options);

}  // namespace xyl
