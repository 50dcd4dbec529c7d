// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels between the copies of proto/copied.hpp: the one-block step, which is all that waits, and the two that
// touch the output (the sums are in kernels/reduce_*.cu).
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "kernels/cuda_space.cuh"

namespace xyl {
namespace {

constexpr unsigned step_lanes = 64, deliver_lanes = 256;

__global__ void __launch_bounds__(step_lanes, 1) copy_step_kernel(const __grid_constant__ copy_arguments given) {
  cuda_space space(given);
  run_copy_step(space, given.what, given.step);
}

__global__ void __launch_bounds__(deliver_lanes)
    deliver_copied_kernel(const __grid_constant__ copy_arguments given) {
  cuda_space space(given);
  if (!space.begin_pair()) return;
  if (given.how.bytes != 0)
    deliver_moved(space, given.call(), given.how);
  else
    deliver_copied(space, given.call(), given.chunk);
}

}  // namespace

copy_kernels copying_kernels() {
  return {{reinterpret_cast<const void*>(copy_step_kernel), step_lanes, argument_capacity(0)},
          {reinterpret_cast<const void*>(deliver_copied_kernel), deliver_lanes, argument_capacity(0)}};
}

}  // namespace xyl
