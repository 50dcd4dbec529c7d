// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the packet protocol; instantiated per type by kernels/packet_*.cu.
#pragma once

#include "kernels/all_reduce.cuh"
#include "proto/two_shot_packet.hpp"

namespace xyl {

struct packet_protocol {
  // The lines of all peers are in flight together.
  static constexpr unsigned lanes(int ranks) { return ranks == 2 ? 512 : ranks == 4 ? 384 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    packet_allreduce(s, c, red);
  }
};

struct two_shot_packet_protocol {
  static constexpr unsigned lanes(int ranks) { return ranks == 2 ? 512 : ranks == 4 ? 384 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    two_shot_packet_allreduce(s, c, red);
  }
};

template <class T>
packet_families packet_kernels() {
  return {family_of<packet_protocol, T>(), family_of<two_shot_packet_protocol, T>()};
}

}  // namespace xyl
