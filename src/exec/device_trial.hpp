// SPDX-License-Identifier: BSD-3-Clause
//
// One self-test of a sync path on this rank's device, as it is ordered and what came of it. Plain bytes: findings
// go over the control plane. See proto/sync_trial.hpp for what is tried.
#pragma once

#include "proto/sync_trial.hpp"

namespace xyl {

// On one rank.
struct trial_finding {
  trial_verdict verdict = trial_verdict::not_launched;
  std::int32_t peer = -1;  // of a bad verdict: whose data, in which round of the trial, which word
  std::uint32_t round = 0;
  std::uint32_t word = 0;
  std::uint64_t wanted = 0, seen = 0;
  std::uint64_t round_ns = 0;   // medians over the launches but the first: of a round,
  std::uint64_t launch_ns = 0;  // and from the end of one launch to that of the next
};

// From what the launches left in memory.
trial_finding finding_of(const trial_state& state, const trial_plan& plan);

}  // namespace xyl
