// SPDX-License-Identifier: BSD-3-Clause
// From options to what the planner is asked; for topo_*.cc.
#pragma once

#include "base/result.hpp"
#include "tools/topo_plan.hpp"
#include "topo/fabric.hpp"
#include "topo/plan_file.hpp"

namespace xyl {

result request_of(const topo::graph& g, const topo_plan_options& options, topo::plan_request& out);

}  // namespace xyl
