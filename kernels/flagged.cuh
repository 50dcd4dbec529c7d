// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels of the flagged protocols; instantiated per type by kernels/bulk_*.cu.
#pragma once

#include "kernels/all_reduce.cuh"
#include "proto/two_shot.hpp"

namespace xyl {

struct one_shot_protocol {
  static constexpr unsigned lanes(int ranks) { return ranks == 2 || ranks == 4 ? 352 : 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    one_shot_allreduce(s, c, red);
  }
};
struct two_shot_protocol {
  static constexpr unsigned lanes(int ranks) { return ranks == 0 ? 256 : 320; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    two_shot_allreduce(s, c, red);
  }
};
struct ring_protocol {
  static constexpr unsigned lanes(int) { return 256; }
  template <class S, class Call, class R>
  static __device__ __forceinline__ void run(S& s, const Call& c, const R& red) {
    ring_allreduce(s, c, red);
  }
};

template <class T>
flagged_families flagged_kernels() {
  // A ring looks at one peer at a time, so a constant number of ranks gains it nothing.
  return {family_of<one_shot_protocol, T>(), family_of<two_shot_protocol, T>(),
          family_of<ring_protocol, T, false>()};
}

}  // namespace xyl
