// SPDX-License-Identifier: BSD-3-Clause
//
// Which kernels exist, by type and algorithm, as handles for the CUDA runtime. Compiles with any compiler. The
// functions packet_kernels, wide_packet_kernels, line_packet_kernels and flagged_kernels are instantiated in
// kernels/packet_*.cu and bulk_*.cu, in files of their own for each type, but in one for all types that share kernels
// (proto/stand_in.hpp).
#pragma once

#include <array>
#include <span>

#include "proto/algorithm.hpp"
#include "proto/element.hpp"
#include "xylem/xylem.h"

namespace xyl {

struct kernel {
  const void* function = nullptr;  // for the CUDA runtime
  unsigned most_lanes = 0;         // threads of a block
  int capacity = 0;                // of its kernel_arguments
  bool is_grouped = false;         // its lanes form groups, see proto/grouped_packet.hpp
  unsigned lanes_of_unit = 1;      // that hold one together, and see to headers besides, see proto/wide_packet.hpp
  bool counts_bytes = false;       // its counts are of bytes, not elements, see proto/packed_reduction.hpp

  // What it is given as the count of so many elements.
  std::uint64_t count_of(std::uint64_t elements, std::uint64_t element_bytes) const {
    return counts_bytes ? elements * element_bytes : elements;
  }
};

// One protocol for one type. `fixed` are the sums for 2, 4 and 8 ranks; null where they do not exist, as all are
// where types that share kernels have no such way.
struct kernel_family {
  kernel any;
  std::array<kernel, 3> fixed;
};

// Types for which sums are built for a constant number of ranks.
template <class T>
inline constexpr bool has_fixed_ranks =
    std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

struct packet_families {
  kernel_family one_shot, two_shot;
};
template <class T>
packet_families packet_kernels();

template <class T>
kernel_family wide_packet_kernels();  // for types that have all ways
template <class T>
kernel_family line_packet_kernels();  // likewise, sums between two ranks; none if the toolkit is too old

struct flagged_families {
  kernel_family one_shot, two_shot, ring;
};
template <class T>
flagged_families flagged_kernels();

// function is null for a type that does not exist, or that has no such way.
kernel choose_kernel(algorithm how, xylDataType_t type, xylRedOp_t operation, int ranks);

// Every kernel once.
std::span<const kernel> all_kernels();

}  // namespace xyl
