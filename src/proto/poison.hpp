// SPDX-License-Identifier: BSD-3-Clause
//
// The word that takes a communicator out of service. It lies in every rank's control block (layout.hpp); relies on
// nothing but the numbers of calls.
#pragma once

#include <cstdint>

#include "base/function.hpp"
#include "proto/epoch.hpp"
#include "xylem/xylem.h"

namespace xyl {

// Why a communicator is out of service. Written into every rank's control line by whoever gives up first; zero is
// healthy. Packed in one word so that one store carries all of it.
//
// Whoever finds that the calls differ may be one call ahead of others: two ranks can have left a good call while a
// third still waits there for a fourth. That call must not be spoiled, and nothing is missing for it to end; so
// this poison carries the epoch in which it was found (its low 14 bits) and the memory kind whose epochs those are,
// and does not concern the call before. Every wait and begin() asks concerns().
struct poison {
  static constexpr int calls_differ = xylInvalidUsage;

  // epoch: of the giver's call, which was on device memory or not; they matter where the code is calls_differ.
  static XYL_FN constexpr std::uint64_t pack(int code, int culprit, epoch_t epoch = 0, bool device = false) {
    return 1ull << 63 | static_cast<std::uint64_t>(device) << 62 | (epoch & 0x3fff) << 48 |
           static_cast<std::uint64_t>(code & 0xffff) << 32 | static_cast<std::uint32_t>(culprit);
  }
  static XYL_FN constexpr int code(std::uint64_t word) { return static_cast<int>(word >> 32 & 0xffff); }
  static XYL_FN constexpr int culprit(std::uint64_t word) { return static_cast<int>(word & 0xffffffffu); }

  // The epoch that a rank outside collective calls gives up in, next being that of its next call: so far away that
  // all poison concerns it, and its poison everybody.
  static XYL_FN constexpr epoch_t epoch_of_pairs(epoch_t next) { return next + 0x1000; }

  // Whether a rank in the call of that epoch must give up.
  static XYL_FN constexpr bool concerns(std::uint64_t word, epoch_t epoch, bool device = false) {
    return word != 0 && (code(word) != calls_differ || (word >> 62 & 1) != static_cast<std::uint64_t>(device) ||
                         (word >> 48 & 0x3fff) != (next_epoch(epoch) & 0x3fff));
  }
};

}  // namespace xyl
