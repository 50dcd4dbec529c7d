// SPDX-License-Identifier: BSD-3-Clause
// Planning many equal machines before they are bought: copies of one graph, joined by a network that gives every
// node so many GB/s each way and takes so many us from node to node. Inside a node the machine's own plan counts;
// across, rails (the i-th GPUs of all nodes) exchange around a ring, all to all, or over a double binary tree of
// nodes. The orders are explicit, and the network's loads are counted by walking them; nothing is kept per pair of
// GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "topo/cost.hpp"
#include "topo/planner.hpp"
#include "topo/trees.hpp"

namespace xyl::topo {

inline constexpr unsigned most_nodes = 4096;

struct network {
  double capacity = 50;   // GB/s of a node each way, all its NICs together
  double us = 3;          // one way, a flag from GPU to GPU
  double issue_us = 0.3;  // for each further message that a GPU sends in one round
};

struct cluster_request {
  unsigned nodes = 2;
  network between;
  plan_request node;  // `what` is not used
  pattern what = pattern::all_reduce;
};

struct cluster_phase {
  std::string name;
  line cost;
};

struct cluster_candidate {
  std::string name;
  line cost;
  std::vector<cluster_phase> phases;
};

struct cluster_plan {
  unsigned nodes = 0;
  unsigned ranks_per_node = 0;
  pattern what = pattern::all_reduce;
  std::vector<std::uint32_t> ring;  // global ranks: node * ranks_per_node + rank in the node
  tree_pair trees;                  // over nodes
  std::vector<cluster_candidate> candidates;
  std::vector<lowest> ranges;  // the winners

  [[nodiscard]] const cluster_candidate& winner(std::uint64_t bytes) const;
};

// Errors: as make_plan; xylInvalidArgument for no or too many nodes, or a network that is not one.
result plan_cluster(const graph& g, const cluster_request& request, cluster_plan& out);

}  // namespace xyl::topo
