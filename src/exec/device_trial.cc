// SPDX-License-Identifier: BSD-3-Clause
#include "exec/device_trial.hpp"

#include <algorithm>
#include <vector>

namespace xyl {

namespace {

std::uint64_t median(std::vector<std::uint64_t> all) {
  if (all.empty()) return 0;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

}  // namespace

trial_finding finding_of(const trial_state& state, const trial_plan& plan) {
  trial_finding found;
  found.verdict = static_cast<trial_verdict>(state.verdict);
  if (found.verdict != trial_verdict::passed) {
    found.peer = state.peer;
    found.round = state.round - plan.begin;
    found.word = state.word;
    found.wanted = state.wanted;
    found.seen = state.seen;
    return found;
  }
  const std::uint32_t launches = std::min(state.launches, trial_order::most_launches);
  // A launch that never came to its end has stored no verdict either.
  if (launches != plan.what.launches) {
    found.verdict = trial_verdict::not_launched;
    return found;
  }
  std::vector<std::uint64_t> inside, apart;
  for (std::uint32_t i = 1; i < launches; ++i) {
    inside.push_back(state.ended[i] - state.began[i]);
    if (i > 1) apart.push_back(state.ended[i] - state.ended[i - 1]);
  }
  found.round_ns = median(std::move(inside)) / plan.what.rounds;
  found.launch_ns = median(std::move(apart));
  return found;
}

}  // namespace xyl
