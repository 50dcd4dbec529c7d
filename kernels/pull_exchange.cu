// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pull.cuh"

namespace xyl {
namespace {

constexpr unsigned exchange_lanes = 384;

__global__ void __launch_bounds__(exchange_lanes, 2)
    pull_exchange_kernel(const __grid_constant__ pull_arguments<argument_capacity(0)> given) {
  cuda_space space(given);
  pull_exchange(space, view_of<false>(given), given.how, given.use);
}

}  // namespace

kernel pull_movement_kernel() {
  return {reinterpret_cast<const void*>(pull_exchange_kernel), exchange_lanes, argument_capacity(0)};
}

}  // namespace xyl
