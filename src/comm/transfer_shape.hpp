// SPDX-License-Identifier: BSD-3-Clause
//
// How a message between two devices is divided: among so many blocks on both sides, through a ring or, if it is
// long, through a region of bulk data. The two ends know nothing of what else the other does, so this depends on
// the message's size, and on what all ranks agreed on.
#pragma once

#include <cstdint>

#include "proto/layout.hpp"

namespace xyl {

struct transfer_shape {
  std::uint16_t blocks = 1;
  std::uint32_t slot_bytes = 0;  // of a long one, see proto/long_transfer.hpp

  bool operator==(const transfer_shape&) const = default;
};

// max_blocks: of a launch. A send and a receive of any size fit into one; short ones for all peers do.
transfer_shape shape_of_transfer(std::uint64_t bytes, const layout& map, unsigned max_blocks);

// The same of what two ranks swap (proto/long_swap.hpp); no slot_bytes: there is no room for that.
transfer_shape shape_of_swap(std::uint64_t bytes, const layout& map, unsigned max_blocks);

}  // namespace xyl
