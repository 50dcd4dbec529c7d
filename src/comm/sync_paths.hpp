// SPDX-License-Identifier: BSD-3-Clause
//
// The sync-path table of a communicator on devices: which paths this machine may use, what their self-tests said,
// and what follows from that. Pure functions of what all ranks know alike, so that every rank comes to the same
// choice. A test can veto a path, never permit one: what a path relies on stands in the table.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/parameters.hpp"
#include "base/result.hpp"
#include "exec/device_trial.hpp"

namespace xyl {

// How the ranks' GPUs reach each other: the weakest link of any pair, or that they meet in host memory. Whoever is
// further down is guaranteed less.
enum class sync_link : std::uint32_t { one_gpu, nvlink, host_memory, other };

// Of all ranks together.
struct sync_facts {
  int ranks = 1;
  int least_sm = 0;
  sync_link link = sync_link::other;
  bool can_overlap = false;                               // every rank's device and driver
  bool has_line_kernels = false;                          // those of ll16, which old toolkits cannot make
  launch_overlap allowed_overlap = launch_overlap::late;  // late where ranks share a GPU, else early
};

// Rank 0's environment; goes over the wire.
struct sync_wishes {
  static constexpr std::uint32_t no_path = 255;
  std::uint32_t path = no_path;  // of XYLEM_SYNC
  std::uint32_t overlapped = 0;  // that path with +pdl
  launch_overlap overlap = launch_overlap::automatic;
  std::uint8_t reserved[3] = {};

  static sync_wishes of(const parameters& p);
  bool plausible() const;
};

struct path_facts {
  sync_path path;
  int sm;              // from which on its instructions exist
  sync_link farthest;  // what it may be used over
  const char* relies_on;
  int ranks = 0;  // it has kernels for so many ranks alone; 0: for all
};
std::span<const path_facts> path_table();
bool is_allowed(const path_facts& path, const sync_facts& facts);
// "" or why the path is not tried here.
std::string not_allowed(const path_facts& path, const sync_facts& facts);

// The ranks' findings of one trial, together: the first bad one, or the slowest times.
struct joint_finding {
  bool tried = false;
  int rank = -1;  // whose the bad finding is
  trial_plan plan;
  trial_finding found;

  bool passed() const { return tried && found.verdict == trial_verdict::passed; }
  bool failed() const { return tried && found.verdict != trial_verdict::passed; }
  // A rank could not take part; then nothing else is tried.
  bool ended() const {
    return failed() && (found.verdict == trial_verdict::absent || found.verdict == trial_verdict::not_launched);
  }
};
joint_finding join_findings(std::span<const trial_finding> of_ranks, const trial_plan& plan);
// "rank 3 read 0x12 from rank 2 where it had put 0x34 (round 17, word 5)"; "" if it is not bad.
std::string text_of(const joint_finding& bad);

// What was tried of one path: trips within a launch, then launches one after the other without and with overlap.
// After a failure the rest is left out.
struct path_trials {
  joint_finding trips, plain, overlapped;

  // What has lost data in any of its launches is not used; whether they may overlap is another question.
  bool works() const { return trips.passed() && !plain.failed(); }
  std::string failure() const;  // "" if there was none
};

// No pointers and nothing allocated: filled while the ranks still have exchanges to come to.
struct sync_trials {
  joint_finding first;  // of the last trial that was given time, see sync_settling.cc
  path_trials of_path[sync_paths];

  const path_trials& of(sync_path p) const { return of_path[static_cast<int>(p)]; }
};

// A line of the table for people. Times in microseconds; 0 where there is none.
struct sync_row {
  std::string name, relies_on, allowed, tested, chosen;
  double trip_us = 0, launch_us = 0;
  bool is_chosen = false;
};

struct sync_decision {
  result verdict;  // why devices cannot be used, if they cannot
  sync_choice choice;
  std::vector<sync_row> rows;
  std::vector<std::string> dropped;  // a line for each path that was allowed and is not used for its self-test
};

sync_decision decide(const sync_facts& facts, const sync_wishes& wishes, const sync_trials& trials);

// The rows as a table of lines.
std::string text_of(std::span<const sync_row> rows);

}  // namespace xyl
