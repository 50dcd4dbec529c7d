// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels that move data and do not care what it is: one each for any number of ranks, and packets for 2, 4 and 8,
// whose loops unroll.
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "kernels/cuda_space.cuh"
#include "proto/exchange_packet.hpp"
#include "proto/long_swap.hpp"

namespace xyl {
namespace {

constexpr unsigned move_lanes = 384, spread_lanes = 256, transfer_lanes = 448;
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
  for (int i = 0; i < given.count; ++i) {
    const unsigned block = blockIdx.x - given.all[i].first_block;
    if (block < given.all[i].blocks) {
      if (given.all[i].peer == given.what.rank)
        copy_to_self(space, given.all[i], block);
      else if (given.all[i].is_long())
        run_long_transfer(space, given.what, given.all[i], block);
      else
        run_transfer(space, given.what, given.all[i], block);
      return;
    }
  }
}

__global__ void __launch_bounds__(transfer_lanes, 2) swap_kernel(const __grid_constant__ swap_arguments given) {
  cuda_space space(given);
  swap_messages(space, given.what, given.both, given.own, given.own_to, blockIdx.x);
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
          handle_of(swap_kernel, transfer_lanes, argument_capacity(2))};
}

}  // namespace xyl
