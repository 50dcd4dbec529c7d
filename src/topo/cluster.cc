// SPDX-License-Identifier: BSD-3-Clause
#include "topo/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

namespace xyl::topo {
namespace {

// What a node sends and receives over the network, per byte of message; the worst node counts.
class node_loads {
 public:
  explicit node_loads(unsigned nodes) : out_(nodes, 0), in_(nodes, 0) {}
  void add(std::uint32_t from, std::uint32_t to, double bytes) {
    if (from == to) return;
    out_[from] += bytes;
    in_[to] += bytes;
  }
  [[nodiscard]] double worst() const {
    return std::max(*std::max_element(out_.begin(), out_.end()), *std::max_element(in_.begin(), in_.end()));
  }

 private:
  std::vector<double> out_, in_;
};

class cluster_planner {
 public:
  cluster_planner(const cluster_request& request, const plan& node)
      : net_(request.between),
        constants_(request.node.constants),
        node_(node),
        nodes_(request.nodes),
        size_(static_cast<unsigned>(node.places.size())),
        m_(request.nodes),
        n_(m_ * size_),
        what_(request.what) {}

  void fill(cluster_plan& out) {
    out.nodes = nodes_;
    out.ranks_per_node = size_;
    out.what = what_;
    const std::vector<int>& local = node_.rings[0];
    out.ring.reserve(std::size_t{nodes_} * size_);
    for (unsigned node = 0; node < nodes_; ++node)
      for (int rank : local) out.ring.push_back(node * size_ + static_cast<unsigned>(rank));
    out.trees = double_binary_tree(nodes_);
    if (what_ == pattern::broadcast) {
      root_at(out.trees.first, 0);
      root_at(out.trees.second, 0);
    }
    if (nodes_ > 1) add_flat_ring(out);
    add_by_rails(out);
    std::vector<line> lines;
    for (const cluster_candidate& c : out.candidates) lines.push_back(c.cost);
    out.ranges = envelope(lines);
  }

 private:
  [[nodiscard]] line over_network(double bytes_of_node, double rounds, double messages, double stretch = 1) const {
    const double round_us = net_.us + constants_.sync_us + net_.issue_us * (messages - 1);
    return {rounds * round_us, stretch * bytes_of_node / net_.capacity};
  }

  void add(cluster_plan& out, std::string name, std::vector<cluster_phase> phases) const {
    cluster_candidate c{std::move(name), {constants_.launch_us, 0}, std::move(phases)};
    for (const cluster_phase& p : c.phases) {
      c.cost.fixed_us += p.cost.fixed_us;
      c.cost.ns_per_byte += p.cost.ns_per_byte;
    }
    out.candidates.push_back(std::move(c));
  }

  // All GPUs in one ring: every step waits for the network. The share of the message that passes over each edge is
  // the same inside and between nodes.
  void add_flat_ring(cluster_plan& out) const {
    double passes = 0, rounds = n_ - 1;
    switch (what_) {
      case pattern::all_reduce:
        passes = 2 * (n_ - 1) / n_;
        rounds *= 2;
        break;
      case pattern::all_gather:
      case pattern::reduce_scatter:
        passes = (n_ - 1) / n_;
        break;
      case pattern::broadcast:
        passes = 1 + (rounds - 1) / constants_.pipeline_parts;
        break;
      case pattern::all_to_all:
        return;
    }
    node_loads loads(nodes_);
    for (std::size_t i = 0; i < out.ring.size(); ++i)
      loads.add(out.ring[i] / size_, out.ring[(i + 1) % out.ring.size()] / size_, passes);
    line cost = over_network(loads.worst(), rounds, 1);
    if (node_.ring_rate > 0) cost.ns_per_byte = std::max(cost.ns_per_byte, passes / node_.ring_rate);
    add(out, "ring over all GPUs", {{"around the ring", cost}});
  }

  // The network's part, of the whole node: all rails at once.
  [[nodiscard]] std::vector<std::pair<std::string, line>> across(const cluster_plan& out) const {
    std::vector<std::pair<std::string, line>> ways;
    if (nodes_ == 1) return {{"", {}}};
    const bool reduces = what_ == pattern::all_reduce;
    const double share = (m_ - 1) / m_;
    if (what_ == pattern::all_to_all) {
      // Every node's data for every other node: size_ messages of size_ ranks, gathered by rail into one each.
      node_loads loads(nodes_);
      for (unsigned to = 1; to < nodes_; ++to) loads.add(0, to, size_ / m_);
      ways.push_back({"all to all by rail", over_network(loads.worst(), 1, m_ - 1)});
      return ways;
    }
    node_loads ring(nodes_);
    for (std::uint32_t node = 0; node < nodes_; ++node)
      ring.add(node, (node + 1) % nodes_,
               what_ == pattern::broadcast ? (node + 1 < nodes_ ? 1 : 0) : (reduces ? 2 : 1) * share);
    const double steps = (reduces ? 2 : 1) * (m_ - 1);
    const double fill = what_ == pattern::broadcast ? 1 + (steps - 1) / constants_.pipeline_parts : 1;
    ways.push_back({"ring by rail", over_network(ring.worst(), steps, 1, fill)});
    if (what_ != pattern::broadcast)
      ways.push_back({"all to all by rail", over_network((reduces ? 2 : 1) * share, reduces ? 2 : 1, m_ - 1)});
    if (reduces || what_ == pattern::broadcast) {
      node_loads tree(nodes_);
      unsigned depth = 0;
      for (const tree_parents* parents : {&out.trees.first, &out.trees.second}) {
        depth = std::max(depth, depth_of(*parents));
        for (std::uint32_t node = 0; node < nodes_; ++node) {
          if ((*parents)[node] == no_parent) continue;
          if (reduces) tree.add(node, (*parents)[node], 0.5);
          tree.add((*parents)[node], node, 0.5);
        }
      }
      const double rounds = (reduces ? 2.0 : 1.0) * depth;
      ways.push_back({"double binary tree by rail",
                      over_network(tree.worst(), rounds, 1, 1 + (rounds - 1) / constants_.pipeline_parts)});
    }
    return ways;
  }

  // The winners of one collective inside a node, as phases; launching is counted once for all.
  [[nodiscard]] std::vector<cluster_phase> inside(pattern what, const char* name) const {
    if (size_ == 1) return {{name, {}}};
    std::vector<cluster_phase> phases;
    std::set<std::uint32_t> seen;
    const collective_plan& c = *node_.find(what);
    for (const size_range& r : c.ranges) {
      if (!seen.insert(r.candidate).second) continue;
      const candidate& x = c.candidates[r.candidate];
      phases.push_back(
          {std::string(name) + ", " + name_of(x), {x.cost.fixed_us - constants_.launch_us, x.cost.ns_per_byte}});
    }
    return phases;
  }

  void add_by_rails(cluster_plan& out) const {
    // Before and after the network: a rank holds the share of its rail.
    const bool scatters = what_ == pattern::all_reduce || what_ == pattern::reduce_scatter;
    const bool gathers =
        what_ == pattern::all_reduce || what_ == pattern::all_gather || what_ == pattern::broadcast;
    std::vector<cluster_phase> before, after;
    if (scatters) before = inside(pattern::reduce_scatter, "reduce-scatter inside");
    // A scatter sends what an allgather's one-shot does, from one rank.
    if (what_ == pattern::broadcast) before = inside(pattern::all_gather, "scatter inside");
    if (what_ == pattern::all_to_all) before = inside(pattern::all_to_all, "to rails inside");
    if (gathers) after = inside(pattern::all_gather, "allgather inside");
    for (const auto& [name, cost] : across(out))
      for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
        std::vector<cluster_phase> phases;
        if (!before.empty()) phases.push_back(before[std::min(i, before.size() - 1)]);
        if (nodes_ > 1) phases.push_back({name, cost});
        if (!after.empty()) phases.push_back(after[std::min(i, after.size() - 1)]);
        std::string title = nodes_ > 1 ? "hierarchical, " + name : "inside the node";
        if (std::max(before.size(), after.size()) > 1)
          title += ", " + (before.empty() ? phases.back().name : phases.front().name);
        add(out, std::move(title), std::move(phases));
      }
  }

  const network& net_;
  const cost_constants& constants_;
  const plan& node_;
  unsigned nodes_;
  unsigned size_;
  double m_;
  double n_;
  pattern what_;
};

}  // namespace

const cluster_candidate& cluster_plan::winner(std::uint64_t bytes) const {
  const auto at =
      std::find_if(ranges.begin(), ranges.end(), [&](const lowest& l) { return bytes <= l.up_to_bytes; });
  return candidates[at->index];
}

result plan_cluster(const graph& g, const cluster_request& request, cluster_plan& out) {
  if (request.nodes < 1 || request.nodes > most_nodes)
    return error(xylInvalidArgument, "a cluster of %u nodes; 1 to %u can be planned", request.nodes, most_nodes);
  const network& net = request.between;
  if (!(net.capacity > 0) || !std::isfinite(net.capacity) || !(net.us >= 0) || !std::isfinite(net.us) ||
      !(net.issue_us >= 0) || !std::isfinite(net.issue_us))
    return error(xylInvalidArgument, "a network of %g GB/s and %g us is none", net.capacity, net.us);
  plan_request node_request = request.node;
  node_request.what = {pattern::all_gather, pattern::reduce_scatter, pattern::all_to_all};
  plan node;
  XYL_TRY(make_plan(g, node_request, node));
  cluster_plan made;
  cluster_planner(request, node).fill(made);
  out = std::move(made);
  return {};
}

}  // namespace xyl::topo
