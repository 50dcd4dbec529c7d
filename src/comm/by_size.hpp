// SPDX-License-Identifier: BSD-3-Clause
//
// From a plan's predicted times to the algorithm for each size, among those that run: five of them, pushing, in
// launches that the workspace holds. What is taken is the lower envelope of their times; one whose message must fit
// into one launch is left out beyond that.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/selection.hpp"
#include "topo/plan.hpp"
#include "topo/planner.hpp"

namespace xyl {

// Nothing for what no kernel does.
std::optional<algorithm> algorithm_of(topo::method how);
// Whether launches of this library do exactly what the candidate stands for.
bool runs(const topo::candidate& c);

struct by_size_limits {
  layout map;
  std::uint64_t chunk_bytes = 0;
  bool deterministic = false;  // rank order only
};
// Empty if no candidate will do.
std::vector<selection::range> fastest_by_size(const topo::collective_plan& planned, const by_size_limits& limits);

// What a person or a cache prescribes. Errors (xylInvalidUsage): an algorithm that does not run here.
result ranges_from(std::span<const topo::plan_override::range> wanted, bool deterministic,
                   std::vector<selection::range>& out);

}  // namespace xyl
