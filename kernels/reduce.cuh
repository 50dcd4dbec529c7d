// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of reduce and reduce-scatter; instantiated per type by kernels/reduce_*.cu.
#pragma once

#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "kernels/cuda_space.cuh"
#include "kernels/reduction_cuda.cuh"

namespace xyl {

struct packet_reduce_protocol {
  static constexpr unsigned lanes(int ranks) { return ranks == 2 || ranks == 4 ? 384 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red, const reduce_target& target) {
    packet_reduce(s, c, red, target);
  }
};
struct direct_reduce_protocol {
  static constexpr unsigned lanes(int ranks) { return ranks == 2 || ranks == 4 ? 320 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red, const reduce_target& target) {
    direct_reduce(s, c, red, target);
  }
};
struct two_phase_reduce_protocol {
  static constexpr unsigned lanes(int) { return 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red, const reduce_target& target) {
    two_phase_reduce(s, c, red, target.to);
  }
};

template <class Protocol, class T, int Ranks>
__global__ void __launch_bounds__(Protocol::lanes(Ranks), 2)
    reduce_kernel(const __grid_constant__ reduce_arguments<argument_capacity(Ranks)> given) {
  cuda_space space(given);
  if constexpr (Ranks == 0) {
    Protocol::run(space, given.what, any_reduction<T>(given.what.record, given.what.ranks), given.target);
  } else {
    Protocol::run(space, given.what, sum_of<T, Ranks>{}, given.target);
  }
}

// The sum between copies. Any number of ranks and any operation: memory is what it waits for.
inline constexpr unsigned copied_lanes = 256;

template <class T>
__global__ void __launch_bounds__(copied_lanes) reduce_copied_kernel(const __grid_constant__ copy_arguments given) {
  cuda_space space(given);
  if (!space.begin_pair()) return;
  const auto red = any_reduction<T>(given.what.record, given.what.ranks);
  if (given.how.bytes != 0)
    reduce_moved(space, given.call(), red);
  else
    reduce_copied(space, given.call(), red, given.chunk);
}

// Long sums of two ranks. As many lanes as have the registers for their loads, on every SM.
template <class T>
inline constexpr unsigned swap_lanes = sizeof(T) == 4 ? 320 : 384;

template <class T>
__global__ void __launch_bounds__(swap_lanes<T>, 2) swap_sum_kernel(const __grid_constant__ swap_arguments given) {
  cuda_space space(given);
  swap_and_reduce(space, given.what, sum_of<T, 2>{}, given.both, blockIdx.x);
}

template <class Protocol, class T, int Ranks>
kernel reduce_handle() {
  kernel k{reinterpret_cast<const void*>(reduce_kernel<Protocol, T, Ranks>), Protocol::lanes(Ranks),
           argument_capacity(Ranks)};
  k.counts_bytes = std::is_same_v<T, packed>;
  return k;
}

template <class Protocol, class T, bool Fixed>
kernel_family reduce_family() {
  kernel_family family;
  family.any = reduce_handle<Protocol, T, 0>();
  if constexpr (Fixed)
    family.fixed = {reduce_handle<Protocol, T, 2>(), reduce_handle<Protocol, T, 4>(),
                    reduce_handle<Protocol, T, 8>()};
  return family;
}

template <class T>
reduce_families reduce_kernels() {
  constexpr bool fixed = has_fixed_ranks<T>;
  kernel copied{reinterpret_cast<const void*>(reduce_copied_kernel<T>), copied_lanes, argument_capacity(0)};
  copied.counts_bytes = std::is_same_v<T, packed>;
  kernel swap;
  if constexpr (fixed)
    swap = {reinterpret_cast<const void*>(swap_sum_kernel<T>), swap_lanes<T>, argument_capacity(2)};
  return {reduce_family<packet_reduce_protocol, T, fixed>(), reduce_family<direct_reduce_protocol, T, fixed>(),
          reduce_family<two_phase_reduce_protocol, T, false>(), copied, swap};
}

}  // namespace xyl
