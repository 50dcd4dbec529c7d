// SPDX-License-Identifier: BSD-3-Clause
//
// One launch for all ranks of a communicator; see proto/joint.hpp. Any number of ranks and any operation: memory is
// what it waits for. Rows of the grid are pieces, or the ranks' blocks of a reduce-scatter.
#include "exec/dispatch.hpp"
#include "kernels/joint.hpp"
#include "kernels/reduction_cuda.cuh"

namespace xyl {
namespace {

constexpr unsigned joint_lanes = 256;

struct joint_space {
  __device__ __forceinline__ unsigned lane() const { return threadIdx.x; }
  __device__ __forceinline__ unsigned lanes() const { return blockDim.x; }
  __device__ __forceinline__ unsigned block() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned blocks() const { return gridDim.x; }
  __device__ __forceinline__ unit16 load16(const unit16* from) const { return *from; }
  __device__ __forceinline__ void store16(unit16* to, unit16 u) const { *to = u; }
};

template <class T>
__global__ void __launch_bounds__(joint_lanes, 1)
    joint_reduce_kernel(const __grid_constant__ joint_reduce_arguments given) {
  joint_space space;
  reduce_jointly(space, given.what, any_reduction<T>(given.operation, given.type, given.divisor), blockIdx.y);
}

__global__ void __launch_bounds__(joint_lanes, 1) move_kernel(const __grid_constant__ joint_move_arguments given) {
  joint_space space;
  move_jointly(space, given.all[blockIdx.y]);
}

}  // namespace

kernel choose_joint_reduce_kernel(xylDataType_t type) {
  kernel found{nullptr, joint_lanes, argument_capacity(0)};
  element_types::for_each([&](auto entry, int) {
    using element = typename decltype(entry)::type;
    if (entry.code != type) return;
    found.function = reinterpret_cast<const void*>(joint_reduce_kernel<stand_in_of<element>>);
    found.counts_bytes = is_packed<element>;
  });
  return found;
}

kernel joint_move_kernel() {
  return {reinterpret_cast<const void*>(move_kernel), joint_lanes, argument_capacity(0)};
}

}  // namespace xyl
