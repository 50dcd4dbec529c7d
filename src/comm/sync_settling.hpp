// SPDX-License-Identifier: BSD-3-Clause
//
// How the ranks come to one sync-path table: every path that is allowed here is tried on all ranks at the same
// time, the findings are exchanged after each trial, and all decide alike. Bounded: a path that never completes
// costs its limit twice; one that works, about a millisecond. Relies on two functions, so that it runs on device
// sides and on threads in the same way.
#pragma once

#include <functional>

#include "comm/sync_paths.hpp"

namespace xyl {

// One trial on this rank; an error if it could not be run.
using trial_function = std::function<result(const trial_plan& plan, trial_finding& out)>;
// Collects `bytes` bytes of every rank in rank order.
using exchange_function = std::function<result(const void* mine, void* all, std::size_t bytes)>;

struct sync_limits {
  std::uint64_t meeting_ns = 10'000'000'000;  // ranks are at the same place; the longest they may be apart
  std::uint64_t first_ns = 1'000'000'000;     // of the first trial, which shows how fast this machine is
  std::uint64_t launch_ns = 50'000'000;       // of a launch of the others
  std::uint64_t slow_round_ns = 200'000;      // ranks whose rounds take so long take turns on their GPU
};

// Collective. facts: equal on all ranks. room: for a finding of every rank. Allocates nothing, since a rank that
// stopped halfway would keep the others waiting. What is wrong with paths is in out; the result is that of the
// exchanges. What follows from out, decide() says.
result try_sync_paths(const sync_facts& facts, const trial_function& attempt, const exchange_function& exchange,
                      const sync_limits& limits, std::span<trial_finding> room, sync_trials& out);

}  // namespace xyl
