// SPDX-License-Identifier: BSD-3-Clause
//
// Epochs number the calls of one communicator. A flag holds a whole epoch and is compared with >=, so it never has
// to be cleared. A packet holds only the low 32 bits and is compared for equality, so epochs whose low half is 0
// (fresh memory) or 1 are skipped; skipping two keeps the parity that chooses the slot.
#pragma once

#include <cstdint>

#include "base/function.hpp"

namespace xyl {

using epoch_t = std::uint64_t;

// The epoch before the first call.
inline constexpr epoch_t epoch_zero = 1;

XYL_FN constexpr epoch_t next_epoch(epoch_t last) {
  const epoch_t next = last + 1;
  return (next & 0xffffffffu) < 2 ? next + 2 : next;
}

XYL_FN constexpr std::uint32_t packet_epoch(epoch_t epoch) { return static_cast<std::uint32_t>(epoch); }

}  // namespace xyl
