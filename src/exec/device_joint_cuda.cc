// SPDX-License-Identifier: BSD-3-Clause
//
// Launches for all ranks of a communicator at once. They wait for nobody, so their grids are as large as the work.
#include <algorithm>

#include "exec/cuda_device_side.hpp"
#include "exec/dispatch.hpp"
#include "kernels/joint.hpp"
#include "proto/partition.hpp"

namespace xyl {

namespace {

// Units of 16 bytes that a lane takes before another block is worth its launch, and what fills a large device.
constexpr std::uint64_t units_of_lane = 4, most_blocks = 1024;

dim3 grid_for(std::uint64_t units, unsigned lanes, std::size_t rows) {
  const std::uint64_t wanted = units_of(units, lanes * units_of_lane);
  return {
      static_cast<unsigned>(std::clamp<std::uint64_t>(wanted, 1, std::max<std::uint64_t>(most_blocks / rows, 1))),
      static_cast<unsigned>(rows), 1};
}

template <class Arguments>
result launch_grid(const kernel& k, dim3 grid, Arguments& arguments, cudaStream_t stream) {
  void* list[] = {&arguments};
  return cuda_result(cudaLaunchKernel(k.function, grid, dim3(k.most_lanes), list, 0, stream), "cudaLaunchKernel");
}

}  // namespace

result cuda_device_side::begin_joint(xylStream_t stream) {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  return order_.before(stream);
}

result cuda_device_side::end_joint(xylStream_t stream) {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  return order_.after(stream);
}

result cuda_device_side::reduce_jointly(const joint_reduction<device_capacity>& what, xylDataType_t type,
                                        xylRedOp_t operation, std::uint32_t divisor, xylStream_t stream) {
  const kernel k = choose_joint_reduce_kernel(type);
  if (!k.function) return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  if (what.ranks < 1 || what.ranks > device_capacity)
    return error(xylInternalError, "a launch for %d ranks jointly, of %d at the most", what.ranks, device_capacity);
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  joint_reduce_arguments arguments{what, operation, type, divisor};
  arguments.what.count = k.count_of(what.count, facts_of(type)->bytes);
  const std::uint64_t units = units_of(what.count, 16 / facts_of(type)->bytes);
  return launch_grid(k, grid_for(units, k.most_lanes, what.blocks_of_result()), arguments, stream);
}

// Several launches if they must.
result cuda_device_side::move_jointly(std::span<const joint_piece> all, xylStream_t stream) {
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  const kernel k = joint_move_kernel();
  for (; !all.empty(); all = all.subspan(std::min(all.size(), joint_move_arguments::most))) {
    const auto now = all.first(std::min(all.size(), joint_move_arguments::most));
    joint_move_arguments arguments;
    std::copy(now.begin(), now.end(), arguments.all);
    std::uint64_t most_bytes = 0;
    for (const joint_piece& p : now) most_bytes = std::max(most_bytes, p.bytes);
    XYL_TRY(launch_grid(k, grid_for(units_of(most_bytes, 16), k.most_lanes, now.size()), arguments, stream));
  }
  return {};
}

}  // namespace xyl
