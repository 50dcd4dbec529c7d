// SPDX-License-Identifier: BSD-3-Clause
// What xylem-topo prints of plans: --plan BYTES, --curve and --nodes M. Each function takes a graph and says the
// rest in options; nothing is read from the environment.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "base/result.hpp"
#include "topo/cluster.hpp"
#include "topo/graph.hpp"
#include "topo/planner.hpp"

namespace xyl {

struct topo_plan_options {
  std::uint64_t bytes = 1 << 20;  // --plan BYTES
  std::optional<unsigned> ranks;  // --ranks N: the first N GPUs; more than there are GPUs: several on each; without
                                  // GPUs 2, or one on each NUMA node
  topo::pattern what = topo::pattern::all_reduce;  // --collective C
  std::string plan_file;                           // as XYLEM_PLAN; empty: none
  std::optional<topo::method> forced;              // as XYLEM_ALGO
  bool deterministic = false;                      // as XYLEM_DETERMINISTIC
  bool host_staged = false;                        // as if no GPU could reach another
  unsigned nodes = 1;                              // --nodes M
  topo::network between;                           // --network GB/s,us
};

// Without GPUs ranks are processes. Errors: xylInvalidArgument (ranks out of range; a cluster of machines without
// GPUs), xylInvalidUsage (the plan file).

// Ring order, trees, islands, each candidate's predicted time with the winner marked, and the winner's phases with
// the loads of every edge.
result print_plan(const topo::graph& g, const topo_plan_options& options, std::ostream& out);
// The whole plan as JSON, every collective of it.
result print_plan_json(const topo::graph& g, const topo_plan_options& options, std::ostream& out);

// 1 KB to 1 GB in powers of two: bytes, winner, its time in us, bus bandwidth in GB/s, then the best time of each
// algorithm (empty where there is none). With nodes > 1, of the cluster.
result print_curve(const topo::graph& g, const topo_plan_options& options, std::ostream& out);
// The same as a picture, through gnuplot. Errors besides: xylSystemError where gnuplot is missing or fails.
result plot_curve(const topo::graph& g, const topo_plan_options& options, std::ostream& svg);

// A cluster of options.nodes such machines: candidates with their phases, the winners by size, the ring's begin.
result print_cluster(const topo::graph& g, const topo_plan_options& options, std::ostream& out);

}  // namespace xyl
