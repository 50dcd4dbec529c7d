// SPDX-License-Identifier: BSD-3-Clause
#include "topo/capacity.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>

namespace xyl::topo {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double payload_share(edge_kind kind, const cost_constants& c) {
  switch (kind) {
    case edge_kind::pcie:
      return c.pcie_store_share;
    case edge_kind::nvlink:
      return c.nvlink_share;
    case edge_kind::socket_link:
    case edge_kind::memory:
    case edge_kind::internal:
      return c.socket_share;
  }
  return 1;
}

double believed(const figure& f, edge_kind kind, const cost_constants& c) {
  if (!f.known() || !(f.value > 0)) return infinite;
  return f.from == source::nominal ? f.value * payload_share(kind, c) : f.value;
}

using pair_table = std::map<std::pair<vertex_id, vertex_id>, const pair_figure*>;

// The best that a measured pair got over each edge, and how many pairs crossed it without a measurement.
struct observation {
  double best = 0;
  unsigned unmeasured = 0;
};

void observe(const fabric& f, const pair_table& pairs, figure pair_figure::*which, std::vector<observation>& seen) {
  for (std::uint16_t a = 0; a < f.gpus.size(); ++a)
    for (std::uint16_t b = 0; b < f.gpus.size(); ++b) {
      const route& r = f.between(a, b);
      if (a == b || (r.staged() && r.memory == no_vertex)) continue;
      // A staged way is written up to its host memory, and read from there.
      const bool writes = which == &pair_figure::write;
      auto key = std::pair{f.gpus[a], f.gpus[b]};
      std::span<const std::uint32_t> edges = r.edges;
      if (r.staged()) {
        key = writes ? std::pair{f.gpus[a], r.memory} : std::pair{r.memory, f.gpus[b]};
        edges = writes ? edges.first(r.written) : edges.subspan(r.written);
      }
      const auto at = pairs.find(key);
      const figure none;
      const figure& measured = at == pairs.end() ? none : at->second->*which;
      if (r.staged() && !measured.known()) continue;
      for (std::uint32_t e : edges) {
        if (measured.known() && measured.value > 0)
          seen[e].best = std::max(seen[e].best, measured.value);
        else
          ++seen[e].unmeasured;
      }
    }
}

bool at_gpu(const graph& g, const edge& e) {
  return g.vertices[e.from].kind == vertex_kind::gpu || g.vertices[e.to].kind == vertex_kind::gpu;
}

// Edges at a GPU are what the GPU can do; the others are only lowered, and only to what is clearly less than the
// GPUs on both sides of some pair could have sent.
void apply(const fabric& f, const std::vector<observation>& seen, figure edge::*which,
           std::vector<double>& capacity) {
  const graph& g = *f.machine;
  double fastest_gpu = 0;
  for (std::uint32_t e = 0; e < seen.size(); ++e) {
    if (seen[e].best == 0 || seen[e].unmeasured > 0 || !at_gpu(g, g.edges[e])) continue;
    fastest_gpu = std::max(fastest_gpu, seen[e].best);
    if ((g.edges[e].*which).from <= source::nominal) capacity[e] = seen[e].best;
  }
  for (std::uint32_t e = 0; e < seen.size(); ++e) {
    if (seen[e].best == 0 || seen[e].unmeasured > 0 || at_gpu(g, g.edges[e])) continue;
    if ((g.edges[e].*which).from <= source::nominal && seen[e].best < 0.97 * fastest_gpu)
      capacity[e] = std::min(capacity[e], seen[e].best);
  }
}

}  // namespace

void fill_capacities(fabric& f) {
  const graph& g = *f.machine;
  const cost_constants& c = f.constants;
  f.write.assign(g.edges.size(), infinite);
  f.read.assign(g.edges.size(), infinite);
  f.copy_engine_gain.assign(g.edges.size(), 1);
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    f.write[e] = believed(g.edges[e].write, g.edges[e].kind, c);
    f.read[e] = believed(g.edges[e].read, g.edges[e].kind, c);
    if (g.edges[e].kind == edge_kind::pcie) f.copy_engine_gain[e] = c.pcie_copy_engine_share / c.pcie_store_share;
  }
  pair_table pairs;
  for (const pair_figure& p : g.pairs) pairs[{p.from, p.to}] = &p;
  std::vector<observation> written(g.edges.size()), pulled(g.edges.size());
  observe(f, pairs, &pair_figure::write, written);
  observe(f, pairs, &pair_figure::read, pulled);
  apply(f, written, &edge::write, f.write);
  apply(f, pulled, &edge::read, f.read);

  // A route of which nothing is known still takes time: the links at its two GPUs are taken for ordinary ones.
  bool assumed = false;
  for (const route& r : f.routes) {
    if (r.edges.empty()) continue;
    const bool limited = std::any_of(r.edges.begin(), r.edges.end(), [&](std::uint32_t e) {
      return f.write[e] < infinite || f.read[e] < infinite;
    });
    if (limited) continue;
    assumed = true;
    for (std::uint32_t e : {r.edges.front(), r.edges.back()}) f.write[e] = f.read[e] = c.unknown_capacity;
  }
  if (assumed) f.notes.push_back("nothing is known of the links of some GPUs; they are taken for PCIe Gen4 x16");

  f.groups.clear();
  for (const capacity_group& group : g.groups)
    if (group.total.known() && group.total.value > 0 && !group.edges.empty())
      f.groups.push_back({group.name, group.edges, group.total.value});
}

}  // namespace xyl::topo
