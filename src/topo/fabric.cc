// SPDX-License-Identifier: BSD-3-Clause
#include "topo/fabric.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "topo/capacity.hpp"
#include "topo/islands.hpp"
#include "topo/staging.hpp"

namespace xyl::topo {
namespace {

// By address; a GPU without one comes last, by what the driver and the file call it.
bool before(const graph& g, vertex_id left, vertex_id right) {
  const vertex& a = g.vertices[left];
  const vertex& b = g.vertices[right];
  if (a.pci.has_value() != b.pci.has_value()) return a.pci.has_value();
  if (a.pci && *a.pci != *b.pci) return *a.pci < *b.pci;
  return std::tie(a.uuid, a.name) < std::tie(b.uuid, b.name);
}

double default_flag_us(path_class what, const cost_constants& c) {
  switch (what) {
    case path_class::loc:
      return c.flag_same_gpu_us;
    case path_class::nv:
      return c.flag_nvlink_us;
    case path_class::pix:
      return c.flag_one_switch_us;
    case path_class::pxb:
      return c.flag_switches_us;
    case path_class::phb:
    case path_class::node:
      return c.flag_root_complex_us;
    case path_class::sys:
      return c.flag_sockets_us;
    case path_class::host:
      return c.flag_host_us;
  }
  return c.flag_host_us;
}

// Remote reads are slow round trips on many PCIe machines, so they are planned with only where they were measured,
// or where the links are known to read as fast as they write.
bool reads_are_trusted(const graph& g, const path& p) {
  if (p.what == path_class::nv || p.what == path_class::loc) return true;
  if (p.read.known() && p.read.from != source::nominal) return true;
  return !p.edges.empty() && std::all_of(p.edges.begin(), p.edges.end(),
                                         [&](std::uint32_t e) { return g.edges[e].read.from > source::nominal; });
}

route route_of(const graph& g, const path& p, const cost_constants& c) {
  route r;
  r.what = p.what;
  r.nvlinks = p.nvlinks;
  r.edges = p.edges;
  r.written = static_cast<std::uint32_t>(p.edges.size());
  r.flag_us = p.latency.known() ? p.latency.value : default_flag_us(p.what, c);
  for (std::uint32_t e : p.edges)
    if (g.vertices[g.edges[e].to].kind == vertex_kind::root_complex) r.target = g.edges[e].to;
  r.pull_trusted = reads_are_trusted(g, p);
  return r;
}

void fill_routes(fabric& f, const path_finder& finder, bool all_staged) {
  const graph& g = *f.machine;
  const std::size_t count = f.gpus.size();
  f.routes.assign(count * count, {});
  bool any = false;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b) {
      route& r = f.routes[a * count + b];
      if (all_staged && a != b) {
        r.what = path_class::host;
        r.flag_us = f.constants.flag_host_us;
      } else {
        r = route_of(g, finder.find(f.gpus[a], f.gpus[b]), f.constants);
      }
      any = any || r.staged();
    }
  if (!any) return;
  // Capacities of edges first: they decide where the bounce buffers lie, and pairs that are staged say nothing of
  // them.
  fill_capacities(f);
  f.notes.clear();
  choose_bounce_memory(f, finder);
}

}  // namespace

bool fabric::any_staged() const {
  return std::any_of(routes.begin(), routes.end(), [](const route& r) { return r.staged(); });
}

result make_fabric(const graph& g, std::span<const vertex_id> gpu_of_rank, const cost_constants& constants,
                   bool all_staged, fabric& out) {
  if (gpu_of_rank.empty()) return error(xylInvalidArgument, "a plan needs at least one rank");
  if (gpu_of_rank.size() > most_members)
    return error(xylInvalidArgument, "a plan of one machine has at most %zu ranks, not %zu", most_members,
                 gpu_of_rank.size());
  for (std::size_t rank = 0; rank < gpu_of_rank.size(); ++rank)
    if (gpu_of_rank[rank] >= g.vertices.size() || g.vertices[gpu_of_rank[rank]].kind != vertex_kind::gpu)
      return error(xylInvalidArgument, "rank %zu is placed on vertex %u of the machine graph, which is not a GPU",
                   rank, gpu_of_rank[rank]);
  fabric f;
  f.machine = &g;
  f.constants = constants;
  f.rank_of_member.resize(gpu_of_rank.size());
  std::iota(f.rank_of_member.begin(), f.rank_of_member.end(), 0);
  std::stable_sort(f.rank_of_member.begin(), f.rank_of_member.end(), [&](int a, int b) {
    return before(g, gpu_of_rank[static_cast<std::size_t>(a)], gpu_of_rank[static_cast<std::size_t>(b)]);
  });
  for (int rank : f.rank_of_member) {
    const vertex_id gpu = gpu_of_rank[static_cast<std::size_t>(rank)];
    // Two GPUs that cannot be told apart may alternate; each is still one GPU.
    auto at = std::find(f.gpus.begin(), f.gpus.end(), gpu);
    if (at == f.gpus.end()) at = f.gpus.insert(at, gpu);
    f.gpu_of_member.push_back(static_cast<std::uint16_t>(at - f.gpus.begin()));
  }
  f.switch_of_gpu = switch_of_members(g, f.gpus);
  f.collapse_flagged = g.write_collapse.known() && g.write_collapse.value > 0 && g.write_collapse.value < 1;
  if (f.collapse_flagged) f.collapse = g.write_collapse.value;
  f.leaves_switch.assign(g.edges.size(), false);
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    const vertex_kind to = g.vertices[g.edges[e].to].kind;
    f.leaves_switch[e] = g.vertices[g.edges[e].from].kind == vertex_kind::pci_switch &&
                         (to == vertex_kind::root_port || to == vertex_kind::root_complex);
  }
  // Ranks of one GPU, where that was measured.
  double inside = 0;
  for (const pair_figure& p : g.pairs)
    if (p.from == p.to && p.write.known() && std::find(f.gpus.begin(), f.gpus.end(), p.from) != f.gpus.end())
      inside = inside == 0 ? p.write.value : std::min(inside, p.write.value);
  if (inside > 0) f.constants.same_gpu_capacity = inside;
  const path_finder finder(g);
  fill_routes(f, finder, all_staged);
  fill_capacities(f);
  out = std::move(f);
  return {};
}

}  // namespace xyl::topo
