// SPDX-License-Identifier: BSD-3-Clause
// xylem-topo --probe: the probe that communicators do, without ranks: a helper for each GPU, and this process
// passes on what they say.
#pragma once

#include <string>

#include "base/parameters.hpp"
#include "base/result.hpp"
#include "topo/graph.hpp"
#include "topo/probe_report.hpp"

namespace xyl {

// Of the GPUs whose UUIDs are known; the graph is not changed. Errors: there are fewer than two.
result probe_machine(const parameters& environment, const topo::graph& g, topo::probe_report& out);

// A line for each pair.
std::string topo_probe_text(const topo::probe_report& report, const topo::graph& g);

}  // namespace xyl
