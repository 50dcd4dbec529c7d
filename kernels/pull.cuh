// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels on registered buffers: reductions, instantiated per type by kernels/bulk_*.cu, and movements. Peers'
// buffers are written by their own earlier launches and, in two-shot form, by this one: they are read and written
// by ordinary accesses, never through the non-coherent path.
#pragma once

#include "kernels/cuda_space.cuh"
#include "kernels/pull_arguments.hpp"
#include "kernels/pull_table.hpp"
#include "kernels/reduction_cuda.cuh"
#include "proto/pull.hpp"
#include "proto/reduce_to.hpp"
#include "proto/stand_in.hpp"

namespace xyl {

// Two blocks of so many to a multiprocessor: the more lanes, the more loads are on their way (320 instead of 512
// cost 4 ranks a fifth), and the fewer registers each has. With these none spills.
template <class T>
constexpr unsigned pull_lanes(int ranks) {
  constexpr bool is_small = sizeof(T) == 1 && !std::is_same_v<T, packed>;
  return is_small || ranks < 4 ? 320 : ranks == 4 ? 448 : 512;
}

// A kernel's arguments as the protocols' call.
template <int Capacity>
struct pull_view : call_view<call<Capacity>> {
  const std::byte* const& addend;
  const std::byte* const (&input_of)[Capacity];
  std::byte* const (&output_of)[Capacity];
  bool inputs_aligned, outputs_aligned;

  __device__ __forceinline__ pull_view(const pull_arguments<Capacity>& given)
      : call_view<call<Capacity>>(given.what, given.what.input, given.what.output),
        addend(given.what.addend),
        input_of(given.input_of),
        output_of(given.output_of),
        inputs_aligned(given.inputs_aligned),
        outputs_aligned(given.outputs_aligned) {}
};

template <class T, int Ranks>
__global__ void __launch_bounds__(pull_lanes<T>(Ranks), 2)
    pull_reduce_kernel(const __grid_constant__ pull_arguments<argument_capacity(Ranks)> given) {
  cuda_space space(given);
  const pull_view what(given);
  if constexpr (Ranks == 0) {
    pull_reduce(space, what, any_reduction<T>(given.what.record, given.what.ranks), given.form);
  } else {
    pull_reduce(space, what, sum_of<T, Ranks>{}, given.form);
  }
}

template <class T, int Ranks>
kernel pull_handle() {
  kernel k{reinterpret_cast<const void*>(pull_reduce_kernel<T, Ranks>), pull_lanes<T>(Ranks),
           argument_capacity(Ranks)};
  k.counts_bytes = std::is_same_v<T, packed>;
  return k;
}

template <class T>
kernel_family pull_kernels() {
  kernel_family family;
  family.any = pull_handle<T, 0>();
  if constexpr (has_fixed_ranks<T>) family.fixed = {pull_handle<T, 2>(), pull_handle<T, 4>(), pull_handle<T, 8>()};
  return family;
}

}  // namespace xyl
