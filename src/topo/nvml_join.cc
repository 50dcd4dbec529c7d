// SPDX-License-Identifier: BSD-3-Clause
// From NVML's view to the graph: values only, so that it is tested without a GPU.
#include <algorithm>
#include <map>
#include <utility>

#include "topo/assembly.hpp"
#include "topo/figure_merge.hpp"
#include "topo/nvml.hpp"
#include "topo/override.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

vertex_id find_gpu(const graph& g, const pci_address& address) {
  for (vertex_id v = 0; v < g.vertices.size(); ++v)
    if (g.vertices[v].kind == vertex_kind::gpu && g.vertices[v].pci == address) return v;
  return no_vertex;
}

vertex_id add_hidden(graph& g, const pci_address& address) {
  assembly a(g);
  vertex_id home = no_vertex;
  for (vertex_id v = 0; v < g.vertices.size() && home == no_vertex; ++v)
    if (g.vertices[v].kind == vertex_kind::numa_node) home = v;
  if (home == no_vertex) home = a.add_numa_node(std::nullopt);
  const vertex_id complex = a.add_root_complex("root complex of " + name_of(address), home);
  const vertex_id gpu = a.add_device(make_vertex(vertex_kind::gpu, {}, address), {});
  g.link(complex, gpu, edge_kind::pcie, {}, {});
  a.note("The driver has a GPU at " + name_of(address) +
         " that /sys does not show; where it is plugged in is unknown.");
  return gpu;
}

// A GPU's links to one end, which is a GPU or no_vertex for the NVSwitches. The slowest counts for all.
struct bundle {
  unsigned links = 0;
  figure each;
};
using bundle_map = std::map<std::pair<vertex_id, vertex_id>, bundle>;

bundle_map bundles_of(const graph& g, const nvml_view& view, const std::vector<vertex_id>& gpus) {
  bundle_map bundles;
  for (std::size_t i = 0; i < view.devices.size(); ++i)
    for (const nvml_link& link : view.devices[i].links) {
      vertex_id peer = no_vertex;
      if (link.what == nvml_link::end::gpu && link.peer) peer = find_gpu(g, *link.peer);
      if (gpus[i] == no_vertex || peer == gpus[i] || (peer == no_vertex && link.what != nvml_link::end::nv_switch))
        continue;
      bundle& b = bundles[{gpus[i], peer}];
      ++b.links;
      if (!b.each.known() || (link.rate.known() && link.rate.value < b.each.value)) b.each = link.rate;
    }
  return bundles;
}

// What the graph has, from a file or from hwloc, gets the driver's numbers by the same rule as everything else; it
// gets no new links, for then it would have some twice.
void complete_links(graph& g, const bundle_map& bundles, join how) {
  for (edge& e : g.edges) {
    if (e.kind != edge_kind::nvlink || g.vertices[e.from].kind != vertex_kind::gpu) continue;
    const bool to_switch = g.vertices[e.to].kind == vertex_kind::nv_switch;
    const auto at = bundles.find({e.from, to_switch ? no_vertex : e.to});
    if (at == bundles.end() || !at->second.each.known()) continue;
    if (how == join::later_wins) e.links = g.edges[e.reverse].links = at->second.links;
    figure all = at->second.each;
    all.value *= e.links;
    for (figure* f : {&e.write, &e.read, &g.edges[e.reverse].write, &g.edges[e.reverse].read})
      if (how == join::later_wins || !f->known()) merge(*f, all);
  }
}

void add_links(graph& g, const bundle_map& bundles) {
  assembly a(g);
  // Both GPUs of a direct link report it; the first one is taken.
  for (const auto& [ends, b] : bundles)
    a.add_nvlinks(ends.first, ends.second == no_vertex ? a.nv_switch() : ends.second, b.links, b.each.value,
                  b.each.trust);
}

}  // namespace

void add_nvml(graph& g, const nvml_view& view, join how) {
  std::vector<vertex_id> gpus;
  for (const nvml_device& device : view.devices) {
    vertex_id v = find_gpu(g, device.pci);
    if (v == no_vertex && how == join::later_wins) v = add_hidden(g, device.pci);
    gpus.push_back(v);
    if (v == no_vertex) continue;
    vertex& gpu = g.vertices[v];
    const bool all = how == join::later_wins;
    if (!device.uuid.empty() && (all || gpu.uuid.empty())) gpu.uuid = device.uuid;
    if (device.sm && (all || gpu.sm == 0)) gpu.sm = device.sm;
    if (device.bar1_bytes && (all || gpu.bar1_bytes == 0)) gpu.bar1_bytes = device.bar1_bytes;
    gpu.mig = gpu.mig || device.mig;
  }
  const bundle_map bundles = bundles_of(g, view, gpus);
  const bool has_links =
      std::any_of(g.edges.begin(), g.edges.end(), [](const edge& e) { return e.kind == edge_kind::nvlink; });
  if (has_links)
    complete_links(g, bundles, how);
  else
    add_links(g, bundles);
  for (const nvml_pair& p : view.refused) {
    if (gpus[p.from] == no_vertex || gpus[p.to] == no_vertex) continue;
    std::optional<bool>& peer = pair_of(g, gpus[p.from], gpus[p.to]).peer_to_peer;
    if (how == join::later_wins || !peer) peer = false;
  }
  number_devices(g);
}

}  // namespace xyl::topo
