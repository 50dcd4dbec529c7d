// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels that move data and do not care what it is: one each for any number of ranks, and packets for 2, 4 and 8,
// whose loops unroll. Also those between the copies of proto/copied.hpp: the one-block step, which is all that
// waits, and what touches the output of a movement (the sums are in kernels/reduce_*.cu); and movements between
// registered buffers.
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "kernels/cuda_space.cuh"
#include "kernels/pull.cuh"
#include "proto/exchange_packet.hpp"
#include "proto/long_swap.hpp"

namespace xyl {
namespace {

constexpr unsigned move_lanes = 384, spread_lanes = 256, transfer_lanes = 448, swap_lanes = 448;
constexpr unsigned step_lanes = 64, deliver_lanes = 256;
// The lines of all peers are in flight together.
constexpr unsigned packet_lanes(int ranks) { return ranks == 2 || ranks == 4 ? 384 : 256; }

template <int Ranks>
__global__ void __launch_bounds__(packet_lanes(Ranks), 2)
    packet_exchange_kernel(const __grid_constant__ move_arguments given) {
  cuda_space space(given);
  packet_exchange<Ranks>(space, given.what, given.how);
}

__global__ void __launch_bounds__(move_lanes, 2) exchange_kernel(const __grid_constant__ move_arguments given) {
  cuda_space space(given);
  exchange(space, given.what, given.how, given.pull);
}

__global__ void __launch_bounds__(spread_lanes, 2)
    spread_broadcast_kernel(const __grid_constant__ move_arguments given) {
  cuda_space space(given);
  spread_broadcast(space, given.what, given.how);
}

__global__ void __launch_bounds__(transfer_lanes, 2)
    transfer_kernel(const __grid_constant__ transfer_arguments given) {
  cuda_space space(given);
  int i = 0;
  while (i < given.count && blockIdx.x - given.all[i].first_block >= given.all[i].blocks) ++i;
  if (i == given.count) return;
  const transfer& mine = given.all[i];
  const unsigned block = blockIdx.x - mine.first_block;
  if (mine.peer == given.what.rank)
    copy_to_self(space, mine, block);
  else if (mine.is_long())
    run_long_transfer(space, given.what, mine, block);
  else
    run_transfer(space, given.what, mine, block);
}

__global__ void __launch_bounds__(swap_lanes, 2) swap_kernel(const __grid_constant__ swap_arguments given) {
  cuda_space space(given);
  swap_messages(space, given.what, given.both, given.own, given.own_to, blockIdx.x);
}

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

__global__ void __launch_bounds__(move_lanes, 2)
    pull_exchange_kernel(const __grid_constant__ pull_arguments<argument_capacity(0)> given) {
  cuda_space space(given);
  pull_exchange(space, pull_view(given), given.how, given.use);
}

template <class Function>
kernel handle_of(Function* function, unsigned lanes = move_lanes, int capacity = argument_capacity(0)) {
  return {reinterpret_cast<const void*>(function), lanes, capacity};
}
template <int Ranks>
kernel packet_handle() {
  return handle_of(packet_exchange_kernel<Ranks>, packet_lanes(Ranks));
}

}  // namespace

move_kernels movement_kernels() {
  return {{packet_handle<0>(), packet_handle<2>(), packet_handle<4>(), packet_handle<8>()},
          handle_of(exchange_kernel),
          handle_of(spread_broadcast_kernel, spread_lanes),
          handle_of(transfer_kernel, transfer_lanes),
          handle_of(swap_kernel, swap_lanes, argument_capacity(2))};
}

copy_kernels copying_kernels() {
  return {handle_of(copy_step_kernel, step_lanes), handle_of(deliver_copied_kernel, deliver_lanes)};
}

kernel pull_movement_kernel() { return handle_of(pull_exchange_kernel); }

}  // namespace xyl
