// SPDX-License-Identifier: BSD-3-Clause
//
// Whose turn it is on a device: one 64-bit word per communicator from which a block learns its call's epoch, and
// whether another launch of the same communicator is still running, with one load.
//
//   [index of the launch: 48 bits][blocks that have entered it: 7 bits][blocks inside: 9 bits]
//
// Every block reads the word, then adds enter_weight() to it, and adds leave_weight when it ends. The weights of
// the blocks of one launch sum to one in the index, whatever the grid (block 0 makes up the difference), so the
// index moves on when the last block has entered, and whoever has not yet entered reads the launch's own. Nobody
// has to be the last, nobody waits for an atomic, nothing is reset, and a replayed graph counts on where the last
// launch stopped. 2^48 launches of 2 us are 17 years.
//
// A block that reads that nobody has entered must read that nobody is inside. Both come from the same access, so it
// cannot mistake a block of its own launch for a foreign one.
#pragma once

#include "proto/epoch.hpp"

namespace xyl {

struct turn {
  static constexpr unsigned most_blocks = 128;

  static XYL_FN constexpr std::uint64_t enter_weight(unsigned block, unsigned blocks) {
    return inside_one + entered_one * (block == 0 ? most_blocks - (blocks - 1) : 1);
  }
  static constexpr std::uint64_t leave_weight = ~0ull;  // minus one inside

  // What the word says to a block that has not entered.
  static XYL_FN constexpr epoch_t epoch(std::uint64_t word) {
    // Each value of the high half has 2^32 - 2 epochs, see next_epoch(). The quotient is the index's own high half,
    // or one more: that is below 2^16, so the remainder is off by less than 2^17.
    const std::uint64_t index = word >> 16;
    std::uint64_t high = index >> 32, low = (index & 0xffffffffu) + 2 * high;
    if (low >= epochs_per_half) {
      low -= epochs_per_half;
      ++high;
    }
    return high << 32 | (low + 2);
  }
  static XYL_FN constexpr bool is_busy(std::uint64_t word) {
    return (word & 0xffff) != 0 && (word >> 9 & 127) == 0;
  }
  static XYL_FN constexpr unsigned inside(std::uint64_t word) { return static_cast<unsigned>(word & 511); }

  // The word before the launch that has this epoch.
  static constexpr std::uint64_t before(epoch_t epoch) {
    return ((epoch >> 32) * epochs_per_half + ((epoch & 0xffffffffu) - 2)) << 16;
  }

 private:
  static constexpr std::uint64_t inside_one = 1, entered_one = 1 << 9;
  static constexpr std::uint64_t epochs_per_half = 0xfffffffeull;
};
static_assert(turn::epoch(0) == next_epoch(epoch_zero));

}  // namespace xyl
