// SPDX-License-Identifier: BSD-3-Clause
// The plan of ranks that are processes on processors, without GPUs: where every rank keeps to a NUMA node of its
// own choice, a ring goes from node to node once; else it goes in rank order. Algorithms are priced by
// host_cost.hpp.
#pragma once

#include "base/result.hpp"
#include "topo/host_cost.hpp"
#include "topo/planner.hpp"

namespace xyl::topo {

// request: its GPUs, root and constants do not matter. Errors (xylInvalidUsage): a prescribed ring that does not
// fit the ranks.
result make_host_plan(const host_ranks& ranks, const plan_request& request, plan& out);

}  // namespace xyl::topo
