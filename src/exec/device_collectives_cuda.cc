// SPDX-License-Identifier: BSD-3-Clause
//
// Launches of the collectives other than allreduce, of transfers and of scaling.
#include <algorithm>

#include "exec/cuda_device_side.hpp"
#include "exec/dispatch.hpp"
#include "exec/room.hpp"
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "proto/exchange_packet.hpp"
#include "proto/partition.hpp"
#include "proto/turn.hpp"

namespace xyl {

namespace {

static_assert(device_side::most_transfers == transfer_arguments::most);

constexpr unsigned most_scaling_blocks = 256;

}  // namespace

result cuda_device_side::check_blocks(unsigned blocks) const {
  if (blocks == 0 || blocks > map_.blocks || blocks > turn::most_blocks)
    return error(xylInternalError, "a launch of %u blocks in a workspace for %u", blocks, map_.blocks);
  return {};
}

result cuda_device_side::reduce(const device_reduce& how, const void* send, void* recv, std::uint64_t count,
                                const call_record& record, xylStream_t stream) {
  const int ranks = static_cast<int>(peers_.size());
  const auto type = static_cast<xylDataType_t>(record.type);
  const kernel k = choose_reduce_kernel(how.form, type, static_cast<xylRedOp_t>(record.operation), ranks);
  if (!k.function) return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  XYL_TRY(check_blocks(how.blocks));
  XYL_TRY(check_room(map_, how.form, facts_of(type)->bytes, count));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  std::uint64_t units = units_of(count, (how.form == reduce_form::packet ? 8 : 16) / facts_of(type)->bytes);
  if (how.form == reduce_form::two_phase) units = units_of(units, static_cast<unsigned>(ranks));
  const std::uint64_t each = units_of_each(units, how.blocks);
  const auto with = [&]<int Capacity>(std::integral_constant<int, Capacity>) {
    reduce_arguments<Capacity> arguments;
    describe(arguments, send, recv, k.count_of(count, facts_of(type)->bytes), record);
    arguments.units_of_block = each;
    arguments.target = how.target;
    return launch(k, how.blocks, shape_of(k, each, map_.ranks), arguments, stream,
                  how.form == reduce_form::packet ? sync_.packet_overlap : sync_.flag_overlap);
  };
  XYL_TRY(with_capacity(k, with));
  return order_.after(stream);
}

result cuda_device_side::move(const device_move& how, const void* send, void* recv, const call_record& record,
                              xylStream_t stream) {
  XYL_TRY(check_blocks(how.blocks));
  XYL_TRY(check_room(map_, how.form, how.what.bytes));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  const kernel k =
      choose_move_kernel(how.form, static_cast<int>(peers_.size()), moves_whole_units(send, recv, how.what));
  std::uint64_t units = units_of(how.what.bytes, how.form == move_form::packet ? 8 : 16);
  if (how.form == move_form::spread) units = units_of(units, peers_.size() - 1);
  move_arguments arguments;
  describe(arguments, send, recv, how.what.bytes, record);
  arguments.units_of_block = units_of_each(units, how.blocks);
  arguments.how = how.what;
  arguments.pull = how.form == move_form::pull;
  XYL_TRY(launch(k, how.blocks, shape_of(k, arguments.units_of_block, map_.ranks), arguments, stream,
                 how.form == move_form::packet ? sync_.packet_overlap : sync_.flag_overlap));
  return order_.after(stream);
}

result cuda_device_side::run_transfers(std::span<const transfer> all, unsigned blocks, const call_record& record,
                                       xylStream_t stream) {
  XYL_TRY(check_blocks(blocks));
  if (all.empty() || all.size() > most_transfers)
    return error(xylInternalError, "%zu transfers in one launch", all.size());
  XYL_TRY(check_room(map_, all, blocks, rank_));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  transfer_arguments arguments;
  describe(arguments, nullptr, nullptr, 0, record);
  arguments.count = static_cast<std::int32_t>(all.size());
  std::uint64_t units = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    arguments.all[i] = all[i];
    const std::uint64_t chunk = all[i].is_long() ? all[i].slot_bytes : map_.pair_chunk;
    units = std::max(units, units_of(std::min(all[i].bytes / all[i].blocks, chunk), 16));
  }
  const kernel k = movement_kernels().transfer;
  XYL_TRY(launch(k, blocks, shape_of(k, units, map_.ranks), arguments, stream));
  return order_.after(stream);
}

bool cuda_device_side::can_swap(xylDataType_t type, bool sums) const {
  return peers_.size() == 2 && (!sums || choose_swap_sum_kernel(type).function != nullptr);
}

result cuda_device_side::swap(const device_swap& how, const void* input, void* output, std::uint64_t count,
                              const call_record& record, xylStream_t stream) {
  const auto type = static_cast<xylDataType_t>(record.type);
  if (!can_swap(type, how.sums))
    return error(xylInternalError, "messages of %zu ranks are not swapped", peers_.size());
  const transfer& out = how.both.out;
  XYL_TRY(check_blocks(out.blocks));
  XYL_TRY(check_room(map_, {&how.both.in, 1}, out.blocks, rank_));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  swap_arguments arguments;
  describe(arguments, input, output, count, record);
  arguments.both = how.both;
  arguments.own = static_cast<const std::byte*>(how.own);
  arguments.own_to = static_cast<std::byte*>(how.own_to);
  const kernel k = how.sums ? choose_swap_sum_kernel(type) : choose_swap_kernel();
  XYL_TRY(launch(k, out.blocks, shape_of(k, out.slot_bytes / 16, map_.ranks), arguments, stream));
  return order_.after(stream);
}

result cuda_device_side::scale(const device_scale& how, const void* input, xylStream_t stream,
                               const void*& scaled) {
  XYL_TRY(check_scratch(map_, how.pieces, how.elements, facts_of(how.by.type)->bytes));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  // Behind the last launch, which may still be reading the scratch memory.
  XYL_TRY(order_.before(stream));
  const kernel k = scaling_kernel(how.by.type);
  scale_arguments arguments;
  arguments.by = how.by;
  arguments.input = static_cast<const std::byte*>(input);
  arguments.output = workspace_ + map_.scratch_offset(static_cast<unsigned>(rank_));
  arguments.input_stride = how.stride;
  arguments.elements = how.elements;
  arguments.pieces = how.pieces;
  scaled = arguments.output;
  void* list[] = {&arguments};
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(units_of(how.elements, k.most_lanes), 1, most_scaling_blocks));
  XYL_TRY(cuda_result(cudaLaunchKernel(k.function, dim3(blocks), dim3(k.most_lanes), list, 0, stream),
                      "cudaLaunchKernel"));
  return order_.after(stream);
}

}  // namespace xyl
