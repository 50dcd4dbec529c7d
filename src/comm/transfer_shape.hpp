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

// Of two-shot allreduces between devices that reach each other: so many units of each share a block deals with at a
// time (proto/two_shot.hpp), of a message of so many bytes on so many blocks; 0: it is done in one step. The same for
// all ranks, whose grids are equal. One launch carries most_stepped_bytes where can_step() says so.
inline constexpr std::uint64_t most_stepped_bytes = 128 << 20;
bool can_step(const layout& map);
std::uint32_t two_shot_step(std::uint64_t bytes, const layout& map, unsigned blocks);

}  // namespace xyl
