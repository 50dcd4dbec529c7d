// SPDX-License-Identifier: BSD-3-Clause
// Where the bounce buffers of a host-staged plan lie. A buffer belongs to its receiver, as all memory that peers
// write to does; which NUMA node's memory it is in decides what sockets, quadrants and memories carry.
#pragma once

#include <vector>

#include "topo/fabric.hpp"

namespace xyl::topo {

// For each GPU of the fabric, the host memory that its peers write to: near the receiver, unless all-to-all traffic
// is faster with another choice (a full quadrant, a slow socket link). no_vertex where none can be reached. Fills
// the routes of staged pairs accordingly; needs capacities of all edges.
void choose_bounce_memory(fabric& f, const path_finder& finder);

}  // namespace xyl::topo
