// SPDX-License-Identifier: BSD-3-Clause
// The few operations of the machine graph that keep its invariants: edges come in pairs, GPUs have one order.
#include "topo/graph.hpp"

#include <algorithm>
#include <utility>

namespace xyl::topo {

vertex_id graph::add(vertex v) {
  vertices.push_back(std::move(v));
  return static_cast<vertex_id>(vertices.size() - 1);
}

std::uint32_t graph::link(vertex_id from, vertex_id to, edge_kind kind, figure capacity, figure latency) {
  const auto there = static_cast<std::uint32_t>(edges.size());
  edges.push_back({.from = from,
                   .to = to,
                   .reverse = there + 1,
                   .kind = kind,
                   .links = 1,
                   .write = capacity,
                   .read = capacity,
                   .latency = latency,
                   .current = {}});
  edges.push_back({.from = to,
                   .to = from,
                   .reverse = there,
                   .kind = kind,
                   .links = 1,
                   .write = capacity,
                   .read = capacity,
                   .latency = latency,
                   .current = {}});
  return there;
}

std::vector<vertex_id> graph::gpus() const {
  std::vector<vertex_id> found;
  for (vertex_id v = 0; v < vertices.size(); ++v)
    if (vertices[v].kind == vertex_kind::gpu) found.push_back(v);
  // A GPU without an address (a file may leave it out) comes after those with one.
  std::stable_sort(found.begin(), found.end(), [this](vertex_id a, vertex_id b) {
    const auto& left = vertices[a].pci;
    const auto& right = vertices[b].pci;
    if (left.has_value() != right.has_value()) return left.has_value();
    return left && *left < *right;
  });
  return found;
}

}  // namespace xyl::topo
