// SPDX-License-Identifier: BSD-3-Clause
//
// The self-test of sync paths: one kernel for all of them. It waits for peers with one block, for a bounded time.
#include "kernels/sync_table.hpp"
#include "kernels/sync_trial.cuh"

namespace xyl {
namespace {

constexpr unsigned trial_lanes = 256;

__global__ void __launch_bounds__(trial_lanes, 2) sync_trial_kernel(const __grid_constant__ trial_order order) {
  cuda_trial_space space;
  sync_trial(space, order).run();
}

}  // namespace

kernel trial_kernel() {
  return {reinterpret_cast<const void*>(sync_trial_kernel), trial_lanes, trial_order::capacity};
}

}  // namespace xyl
