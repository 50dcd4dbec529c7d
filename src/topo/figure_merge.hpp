// SPDX-License-Identifier: BSD-3-Clause
// The one rule by which numbers of different sources become one: a user's word beats a measurement, a measurement
// beats a description, and of two of the same source the later one counts unless it is trusted less.
#pragma once

#include "topo/graph.hpp"

namespace xyl::topo {

[[nodiscard]] inline bool replaces(const figure& later, const figure& earlier) {
  if (!later.known()) return false;
  if (!earlier.known() || later.from > earlier.from) return true;
  return later.from == earlier.from && later.trust >= earlier.trust;
}

inline void merge(figure& into, const figure& later) {
  if (replaces(later, into)) into = later;
}

}  // namespace xyl::topo
