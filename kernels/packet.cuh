// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the packet protocol; instantiated per type by kernels/packet_*.cu.
#pragma once

#include "kernels/all_reduce.cuh"
#include "proto/grouped_packet.hpp"
#include "proto/two_shot_packet.hpp"

namespace xyl {

struct packet_protocol {
  // The lines of all peers are in flight together.
  static constexpr unsigned lanes(int ranks) { return ranks == 2 ? 448 : ranks == 4 ? 320 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    packet_allreduce(s, c, red);
  }
};

// A lane sees to all peers while they are few; to one of many.
struct two_shot_packet_protocol {
  static XYL_FN constexpr bool is_grouped(int ranks) { return ranks != 2 && ranks != 4; }
  // Grouped: eight groups of one warp, or fewer of more, and a warp for the headers.
  static constexpr unsigned lanes(int ranks) { return ranks == 2 ? 448 : ranks == 4 ? 320 : 288; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    if constexpr (is_grouped(R::ranks))
      grouped_two_shot_allreduce(s, c, red);
    else
      two_shot_packet_allreduce(s, c, red);
  }
};

template <class T>
packet_families packet_kernels() {
  return {family_of<packet_protocol, T>(), family_of<two_shot_packet_protocol, T>()};
}

}  // namespace xyl
