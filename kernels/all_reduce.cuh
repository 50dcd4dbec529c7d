// SPDX-License-Identifier: BSD-3-Clause
//
// The thin shell around a protocol: a __global__ function that makes a space and a reduction and calls the
// protocol's text. The arguments stay in constant memory (__grid_constant__): nothing copies them.
#pragma once

#include "kernels/cuda_space.cuh"
#include "kernels/kernel_table.hpp"
#include "kernels/reduction_cuda.cuh"

namespace xyl {

// Protocol: a struct with a static run(space, call, reduction), perhaps a space<Capacity> of its own, and
// lanes(ranks), the most lanes of a block: as many as leave room for the registers, two blocks to a multiprocessor,
// on every generation. Ranks: 0 for any.
template <class Protocol, int Ranks>
struct space_of {
  using type = cuda_space<argument_capacity(Ranks)>;
};
template <class Protocol, int Ranks>
requires requires { typename Protocol::template space<2>; }
struct space_of<Protocol, Ranks> {
  using type = typename Protocol::template space<argument_capacity(Ranks)>;
};

template <class Protocol, class T, int Ranks>
__global__ void __launch_bounds__(Protocol::lanes(Ranks), 2)
    all_reduce_kernel(const __grid_constant__ kernel_arguments<argument_capacity(Ranks)> given) {
  typename space_of<Protocol, Ranks>::type space(given);
  if constexpr (Ranks == 0) {
    Protocol::run(space, given.what, any_reduction<T>(given.what.record, given.what.ranks));
  } else {
    Protocol::run(space, given.what, sum_of<T, Ranks>{});
  }
}

template <class Protocol>
constexpr bool is_grouped(int ranks) {
  if constexpr (requires { Protocol::is_grouped(ranks); })
    return Protocol::is_grouped(ranks);
  else
    return false;
}

template <class Protocol>
constexpr unsigned lanes_of_unit() {
  if constexpr (requires { Protocol::lanes_of_unit; })
    return Protocol::lanes_of_unit;
  else
    return 1;
}

template <class Protocol, class T, int Ranks>
kernel handle_of() {
  return {reinterpret_cast<const void*>(all_reduce_kernel<Protocol, T, Ranks>),
          Protocol::lanes(Ranks),
          argument_capacity(Ranks),
          is_grouped<Protocol>(Ranks),
          lanes_of_unit<Protocol>(),
          std::is_same_v<T, packed>};
}

template <class Protocol, class T, bool Fixed = has_fixed_ranks<T>>
kernel_family family_of() {
  kernel_family family;
  family.any = handle_of<Protocol, T, 0>();
  if constexpr (Fixed)
    family.fixed = {handle_of<Protocol, T, 2>(), handle_of<Protocol, T, 4>(), handle_of<Protocol, T, 8>()};
  return family;
}

}  // namespace xyl
