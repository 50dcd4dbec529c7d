// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the protocol of 16-byte lines; instantiated per type by kernels/packet_*.cu.
#pragma once

#include "kernels/all_reduce.cuh"
#include "kernels/cuda_space_lines.cuh"
#include "proto/line_packet.hpp"

namespace xyl {

struct line_packet_protocol {
  template <int Capacity>
  using space = cuda_line_space<Capacity>;
  static constexpr unsigned lanes_of_unit = space<2>::sheet_lanes;
  // A link has enough to do with the lines of some 64 warps.
  static constexpr unsigned lanes(int) { return 128; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    line_packet_allreduce(s, c, red);
  }
};

// Sums between two ranks alone: nobody has measured anything else, and kernels take the compiler's time.
template <class T>
kernel_family line_packet_kernels() {
  kernel_family family;
  if constexpr (machine::has_whole_lines) family.fixed[0] = handle_of<line_packet_protocol, T, 2>();
  return family;
}

}  // namespace xyl
