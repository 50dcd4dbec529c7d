// SPDX-License-Identifier: BSD-3-Clause
//
// Launches of the fused allreduce.
#include <algorithm>

#include "exec/cuda_device_side.hpp"
#include "exec/device_fused.hpp"
#include "exec/dispatch.hpp"
#include "exec/room.hpp"
#include "kernels/arch.hpp"
#include "kernels/fused_arguments.hpp"
#include "kernels/fused_limits.hpp"
#include "kernels/fused_table.hpp"

namespace xyl {

namespace {

// More rows go through the same blocks in turn.
constexpr std::uint64_t most_blocks_of_rows = 65535;
constexpr std::uint64_t most_spread_rows = 32;

}  // namespace

result find_clusters(int device, device_handle& handle) {
  int major = 0, minor = 0;
  XYL_TRY(cuda_result(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                      "cudaDeviceGetAttribute"));
  XYL_TRY(cuda_result(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                      "cudaDeviceGetAttribute"));
  std::fill(std::begin(handle.max_clustered_blocks), std::end(handle.max_clustered_blocks), 0);
  if (!known_archs::of(10 * major + minor).has_clusters) return {};
  std::int32_t held[device_fused_forms];
  std::copy(std::begin(handle.max_fused_blocks), std::end(handle.max_fused_blocks), held);
  for (const fused_kernel_entry& e : all_fused_kernels()) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {most_blocks_of_row, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(most_blocks_of_row);
    config.blockDim = dim3(e.function.most_lanes);
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    // What an instance of the GPU or an MPS share cannot hold is not used; it is no error.
    if (cudaOccupancyMaxActiveClusters(&clusters, e.function.function, &config) != cudaSuccess || clusters == 0) {
      (void)cudaGetLastError();
      return {};
    }
    std::int32_t& most = held[static_cast<int>(e.form)];
    most = std::min(most, clusters * static_cast<std::int32_t>(most_blocks_of_row));
  }
  std::copy(std::begin(held), std::end(held), handle.max_clustered_blocks);
  return {};
}

result cuda_device_side::fused(const fused_launch& how, const fused_work& work, const call_record& record,
                               xylStream_t stream) {
  const auto type = static_cast<xylDataType_t>(record.type);
  const kernel k = choose_fused_kernel(how.form, type, work, static_cast<int>(peers_.size()));
  if (!k.function) return error(xylInvalidArgument, "no fused kernel for type %d", static_cast<int>(type));
  XYL_TRY(check_blocks(how.blocks));
  if (how.blocks % work.split != 0 || how.lanes % 32 != 0 || how.lanes == 0 || how.lanes > k.most_lanes)
    return error(xylInternalError, "a fused launch of %u blocks of %u lanes, %u blocks to a row", how.blocks,
                 how.lanes, work.split);
  XYL_TRY(check_room(map_, how.form, facts_of(type)->bytes, work));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  block_shape shape;
  shape.lanes = how.lanes;
  shape.cluster = work.is_clustered ? work.split : 1u;
  const auto launch_with = [&](auto& arguments) {
    describe(arguments, nullptr, nullptr, 0, record);
    arguments.work = work;
    arguments.teams = how.blocks / work.split;
    return launch(k, how.blocks, shape, arguments, stream,
                  uses_packets(how.form) ? sync_.packet_overlap : sync_.flag_overlap);
  };
  const auto with = [&]<int Capacity>(std::integral_constant<int, Capacity>) {
    if (!pulls(how.form)) {
      fused_arguments<Capacity> arguments;
      return launch_with(arguments);
    }
    fused_pull_arguments<Capacity> arguments;
    std::copy_n(how.input_of, peers_.size(), arguments.input_of);
    return launch_with(arguments);
  };
  XYL_TRY(with_capacity(k, with));
  return order_.after(stream);
}

bool cuda_device_side::can_add(xylDataType_t type) const {
  const std::size_t ranks = peers_.size();
  return (ranks == 2 || ranks == 4 || ranks == 8) &&
         (type == xylFloat16 || type == xylBfloat16 || type == xylFloat32);
}

result cuda_device_side::fused_rows(const fused_work& work, xylDataType_t type, xylStream_t stream) {
  const type_facts* const facts = facts_of(type);
  const unsigned pieces = facts ? work.hidden * facts->bytes / 16 : 0;
  const bool is_spread = work.tokens <= most_spread_rows;
  const kernel k = choose_rows_kernel(
      type, work.pattern,
      is_spread && pieces <= most_lanes_of_rows(rows_spread::wide) ? rows_spread::wide : rows_spread::narrow);
  if (!k.function) return error(xylInvalidArgument, "no kernel for rows of type %d", static_cast<int>(type));
  if (work.tokens == 0) return {};
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  fused_arguments<argument_capacity(2)> arguments;
  arguments.work = work;
  // As many pieces for every lane, in whole warps: pieces of a scale's group lie in one. Few rows have as many
  // lanes as can be; of many, which would wait for each other (a multiprocessor has registers for one block of 448
  // lanes), each has as few.
  const unsigned fewest = (pieces + k.most_lanes - 1) / k.most_lanes;
  const auto most = static_cast<unsigned>(pieces_of_row_lane(facts->bytes, rows_spread::narrow));
  const unsigned of_lane = is_spread ? fewest : std::max(fewest, std::min(most, (pieces + 31) / 32));
  block_shape shape;
  shape.lanes = ((pieces + of_lane - 1) / of_lane + 31) / 32 * 32;
  arguments.work.split = 1;
  arguments.work.is_clustered = false;
  const auto blocks = static_cast<unsigned>(std::min<std::uint64_t>(work.tokens, most_blocks_of_rows));
  arguments.teams = blocks;
  XYL_TRY(launch_alone(k, blocks, shape, arguments, stream, sync_.packet_overlap));
  return order_.after(stream);
}

}  // namespace xyl
