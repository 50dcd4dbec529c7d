// SPDX-License-Identifier: BSD-3-Clause
//
// The shape of a kernel's blocks for a number of units. The host does the divisions, so that no kernel has to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/kernel_table.hpp"
#include "proto/grouped_packet.hpp"

namespace xyl {

// The threads of a block, what they are in groups (see proto/grouped_packet.hpp), the shared memory they want, and
// how blocks are clustered.
struct block_shape {
  unsigned lanes = 0;
  unsigned lanes_of_group = 0;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of a cluster; 1: there are none
};

// One unit per lane as far as that goes, and a warp more, which sees to the headers while the others see to data,
// unless several lanes hold a unit.
inline block_shape shape_of(const kernel& k, std::uint64_t units, unsigned ranks) {
  constexpr unsigned warp = 32;
  // A division by a warp's lanes that cannot overflow: units may be as many as can be said.
  const std::uint64_t wanted = std::max<std::uint64_t>(units / warp + (units % warp != 0), 1) * warp;
  block_shape shape;
  if (k.lanes_of_unit > 1) {
    const std::uint64_t most = k.most_lanes / k.lanes_of_unit;
    const std::uint64_t lanes = std::max<std::uint64_t>(std::min(units, most), 1) * k.lanes_of_unit;
    shape.lanes = static_cast<unsigned>((lanes + warp - 1) / warp * warp);
    return shape;
  }
  if (!k.is_grouped) {
    shape.lanes = static_cast<unsigned>(std::min<std::uint64_t>(wanted, k.most_lanes - warp)) + warp;
    return shape;
  }
  const unsigned groups = std::min(ranks, (k.most_lanes - warp) / warp);
  const unsigned room = (k.most_lanes - warp) / groups / warp * warp;
  shape.lanes_of_group = static_cast<unsigned>(std::min<std::uint64_t>(wanted, room));
  shape.lanes = groups * shape.lanes_of_group + warp;
  shape.shared_bytes = std::size_t{ranks} * group_unroll * shape.lanes_of_group * sizeof(std::uint64_t);
  return shape;
}

}  // namespace xyl
