// SPDX-License-Identifier: BSD-3-Clause
// From options to what the planner is asked; for topo_*.cc.
#pragma once

#include "base/result.hpp"
#include "tools/topo_plan.hpp"
#include "topo/fabric.hpp"
#include "topo/plan_file.hpp"

namespace xyl {

// Of a machine without GPUs the request has no ranks.
result request_of(const topo::graph& g, const topo_plan_options& options, topo::plan_request& out);

// Of GPUs, or, where there are none, of processes.
result plan_machine(const topo::graph& g, const topo_plan_options& options, bool every_collective, topo::plan& out);

// Of options.nodes such machines.
result plan_cluster(const topo::graph& g, const topo_plan_options& options, topo::cluster_plan& out);

}  // namespace xyl
