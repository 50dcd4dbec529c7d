// SPDX-License-Identifier: BSD-3-Clause
//
// How the collectives other than allreduce are done, by name.
#pragma once

#include <cstdint>

namespace xyl {

// packet_reduce(), direct_reduce(), two_phase_reduce()
enum class reduce_form : std::uint8_t { packet, direct, two_phase };

// packet_exchange(), exchange() pushed and pulled, spread_broadcast()
enum class move_form : std::uint8_t { packet, direct, pull, spread };

// See pull_reduce_block().
enum class pull_form : std::uint8_t { one_shot, two_shot, gathered };

// Which buffers of its peers a movement uses in place: it reads their inputs, writes their outputs, or (a
// broadcast) reads the root's output.
enum class window_use : std::uint8_t { inputs, outputs, root_output };

}  // namespace xyl
