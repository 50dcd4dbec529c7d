// SPDX-License-Identifier: BSD-3-Clause
// The plan of ranks that are processes on processors, without GPUs: where every rank keeps to a NUMA node of its
// own choice, a ring goes from node to node once; else it goes in rank order. No algorithm is priced: the cost
// model knows links, not caches, and the thresholds of host memory are measured.
#pragma once

#include <span>

#include "base/result.hpp"
#include "topo/planner.hpp"

namespace xyl::topo {

// numa_of_rank: -1 where unknown. Errors (xylInvalidUsage): a prescribed ring that does not fit the ranks.
result make_host_plan(std::span<const int> numa_of_rank, const plan_override* prescribed, plan& out);

}  // namespace xyl::topo
