// SPDX-License-Identifier: BSD-3-Clause
#include "topo/plan.hpp"

#include <algorithm>

namespace xyl::topo {

std::string name_of(const candidate& c) {
  std::string name = name_of(c.how);
  if (c.how == method::hierarchical)
    name += std::string(" by ") + name_of(c.level) + (c.by_ring ? ", ring across" : "");
  const bool inside = c.inside == direction::pull, across = c.across == direction::pull;
  if (inside || across) name += inside && across ? ", pull" : inside ? ", pull inside" : ", pull across";
  if (c.staged) name += ", one root complex at a time";
  return name;
}

const candidate& collective_plan::winner(std::uint64_t bytes) const {
  const auto at =
      std::find_if(ranges.begin(), ranges.end(), [&](const size_range& r) { return bytes <= r.up_to_bytes; });
  return candidates[at->candidate];
}

const collective_plan* plan::find(pattern what) const {
  const auto at = std::find_if(collectives.begin(), collectives.end(),
                               [&](const collective_plan& c) { return c.what == what; });
  return at == collectives.end() ? nullptr : &*at;
}

}  // namespace xyl::topo
