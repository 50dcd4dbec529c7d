// SPDX-License-Identifier: BSD-3-Clause
//
// Measured thresholds: which algorithm is timed at which size, and from the times to ranges of sizes. Pure: every
// rank feeds it the same numbers and so does the same next.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "proto/algorithm.hpp"
#include "topo/tuning_cache.hpp"

namespace xyl {

// One message size up to the next, and at each the algorithms that may still win: what sends whole messages to
// every peer and was far behind at one size is further behind at the next.
class ladder {
 public:
  struct rung {
    algorithm how;
    std::uint64_t bytes;
  };

  // packets, wide_packets, line_packets: whether they may be used at all.
  ladder(bool deterministic, bool packets, bool wide_packets, bool line_packets);

  // What to time next; nothing when all is known.
  std::optional<rung> next() const;
  void timed(double us);
  // No more sizes than were finished.
  void stop();

  // Empty if not even one size was finished.
  topo::tuning thresholds() const;

  static constexpr std::uint64_t smallest = 256, largest = 4 << 20, factor = 4;

 private:
  struct time {
    rung at;
    double us;
  };
  void next_size();
  double least_at(std::uint64_t bytes) const;

  std::uint64_t bytes_ = smallest;
  std::vector<algorithm> left_;  // to be timed at this size
  std::vector<algorithm> contenders_;
  std::vector<time> times_;
  bool over_ = false;
};

}  // namespace xyl
