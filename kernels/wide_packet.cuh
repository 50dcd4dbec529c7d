// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the protocol of 128-byte lines; instantiated per type by kernels/packet_*.cu.
#pragma once

#include "kernels/all_reduce.cuh"
#include "kernels/cuda_space_wide.cuh"
#include "proto/wide_packet.hpp"

namespace xyl {

struct wide_packet_protocol {
  template <int Capacity>
  using space = cuda_wide_space<Capacity>;
  static constexpr unsigned lanes_of_unit = space<2>::pack_lanes;
  // Between two ranks a lane has two packs on the way, among more the packs of all peers.
  static constexpr unsigned lanes(int ranks) { return ranks == 2 ? 384 : ranks == 4 ? 320 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    wide_packet_allreduce(s, c, red);
  }
};

template <class T>
kernel_family wide_packet_kernels() {
  kernel_family family = family_of<wide_packet_protocol, T, false>();
  // Between two ranks they are the choice for some sizes; among more only if somebody says so.
  if constexpr (has_fixed_ranks<T>) family.fixed[0] = handle_of<wide_packet_protocol, T, 2>();
  return family;
}

}  // namespace xyl
