// SPDX-License-Identifier: BSD-3-Clause
//
// What rank 0 knows of the machine when it plans: the graph from a file or from discovery, what was measured of it
// and what the user says, where the ranks are in it, and the keys under which measurements are kept.
#pragma once

#include <string>
#include <vector>

#include "comm/planning.hpp"

namespace xyl {

struct machine_facts {
  topo::graph g;       // empty: not looked at
  std::string driver;  // as NVML prints it; "" if unknown
  std::string from;    // where the graph is from; "" without one
  std::vector<std::string> notes;
  topo::tuning_key key{};  // of the graph as it was described, before anything measured was added
};

// The graph as the machine or a file shows it. Errors (xylInvalidUsage): a file that a person names cannot be used.
result read_described_graph(const planning_input& in, machine_facts& out);
// The graph to plan on: what was measured wins over what is described, and the user over both.
result read_graph(const planning_input& in, machine_facts& out);

// Which GPU of the graph each rank has. Where one is not in it, all are below one root complex of a graph of their
// own.
std::vector<topo::vertex_id> place_ranks(const planning_input& in, machine_facts& machine);

// Why the ranks' GPUs must not use each other's memory, by a file that a person names; "" if none says so. One pair
// is enough, as with a probe. What is wrong with a file is said when the plan is made, not here.
std::string forbidden_link(const planning_input& in);

// Of each rank, the NUMA node that a plan for GPUs that meet in host memory puts its bounce buffer on; -1: nothing
// is known of it.
std::vector<int> bounce_nodes(planning_input in);

topo::pci_address address_of(const device_handle& h);
// As the driver prints it.
std::string uuid_text(const std::uint8_t (&uuid)[16]);

// "VARIABLE: " in front.
result named(const char* variable, const result& r);

}  // namespace xyl
