// SPDX-License-Identifier: BSD-3-Clause
// Assumptions are kept few: hwloc and NCCL say nothing of the links between sockets, so these are full meshes of
// unknown capacity; and a rate of NVLink that divides by 25 GB/s is that of generations 2 to 4.
#include "topo/assembly.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

constexpr unsigned vendor_nvidia = 0x10de;
constexpr unsigned vendor_amd = 0x1002;
constexpr std::size_t most_notes = 64;
// Beyond this a mesh has more links than any machine of that size.
constexpr std::size_t largest_mesh = 32;

// Rates of one link, GB/s: NVLink 2 to 4, then NVLink 1.
double rate_of_one_link(double gigabytes_per_second) {
  for (double rate : {25.0, 20.0})
    if (std::fabs(std::remainder(gigabytes_per_second, rate)) < 0.01) return rate;
  return gigabytes_per_second;
}

}  // namespace

std::optional<vertex_kind> kind_of_device(unsigned pci_class, unsigned vendor) {
  constexpr unsigned vga = 0x0300, three_d = 0x0302, display = 0x0380, accelerator = 0x1200;
  if (pci_class >> 8 == 0x02) return vertex_kind::nic;
  // A board's own display chip is a VGA controller, sometimes AMD's.
  if (vendor == vendor_nvidia && (pci_class == vga || pci_class == three_d)) return vertex_kind::gpu;
  if (vendor == vendor_amd && (pci_class == three_d || pci_class == display || pci_class == accelerator))
    return vertex_kind::gpu;
  return std::nullopt;
}

vertex make_vertex(vertex_kind kind, std::string name, std::optional<pci_address> pci,
                   std::optional<unsigned> os_index) {
  vertex v;
  v.kind = kind;
  v.name = std::move(name);
  v.pci = pci;
  v.os_index = os_index;
  return v;
}

vertex_id assembly::add_numa_node(std::optional<unsigned> os_index) {
  const std::string name = os_index ? std::to_string(*os_index) : "of unknown number";
  const vertex_id node = graph_.add(make_vertex(vertex_kind::numa_node, "NUMA node " + name, {}, os_index));
  const vertex_id memory =
      graph_.add(make_vertex(vertex_kind::host_memory, "memory of NUMA node " + name, {}, os_index));
  graph_.link(node, memory, edge_kind::memory, {}, {});
  numa_nodes_.push_back(node);
  return node;
}

vertex_id assembly::add_socket(std::optional<unsigned> os_index) {
  const std::string name = os_index ? std::to_string(*os_index) : std::to_string(sockets_.size());
  sockets_.push_back(graph_.add(make_vertex(vertex_kind::socket, "socket " + name, {}, os_index)));
  return sockets_.back();
}

vertex_id assembly::add_root_complex(const std::string& name, vertex_id home) {
  const vertex_id complex = graph_.add(make_vertex(vertex_kind::root_complex, name));
  graph_.link(home, complex, edge_kind::internal, {}, {});
  return complex;
}

vertex_id assembly::add_device(vertex v, const std::string& software_name) {
  v.name = software_name;
  if (v.pci) {
    const auto [at, first] = devices_.emplace(*v.pci, static_cast<vertex_id>(graph_.vertices.size()));
    if (!first) {
      note("Two devices claim the PCI address " + topo::name_of(*v.pci) + "; the second keeps none.");
      v.pci.reset();
    }
  }
  return graph_.add(std::move(v));
}

vertex_id assembly::some_numa_node(const std::string& what) {
  if (numa_nodes_.empty()) add_numa_node(std::nullopt);
  if (numa_nodes_.size() > 1) homeless_.push_back(what);
  return numa_nodes_.front();
}

void assembly::add_nvlink(vertex_id a, vertex_id b, double gigabytes_per_second) {
  if (!std::isfinite(gigabytes_per_second) || gigabytes_per_second <= 0 || gigabytes_per_second > 1e5) return;
  const double each = rate_of_one_link(gigabytes_per_second);
  add_nvlinks(a, b, static_cast<unsigned>(std::lround(gigabytes_per_second / each)), each, confidence::medium);
}

void assembly::add_nvlinks(vertex_id a, vertex_id b, unsigned links, double gigabytes_per_second_each,
                           confidence trust) {
  if (a == b || links == 0 || !nvlinks_.emplace(std::minmax(a, b), 0).second) return;
  const figure capacity =
      gigabytes_per_second_each > 0 ? figure{links * gigabytes_per_second_each, source::nominal, trust} : figure{};
  const std::uint32_t there = graph_.link(a, b, edge_kind::nvlink, capacity, {});
  graph_.edges[there].links = graph_.edges[there + 1].links = links;
}

vertex_id assembly::nv_switch() {
  if (nv_switch_ == no_vertex) nv_switch_ = graph_.add(make_vertex(vertex_kind::nv_switch, "NVSwitch"));
  return nv_switch_;
}

void assembly::note(std::string text) {
  if (graph_.notes.size() < most_notes)
    graph_.notes.push_back(std::move(text));
  else if (graph_.notes.size() == most_notes)
    graph_.notes.push_back("There are more notes than are kept.");
}

void assembly::link_all(const std::vector<vertex_id>& peers) {
  for (std::size_t i = 0; i < peers.size(); ++i)
    for (std::size_t j = i + 1; j < peers.size(); ++j)
      if (i == 0 || peers.size() <= largest_mesh) graph_.link(peers[i], peers[j], edge_kind::socket_link, {}, {});
}

void assembly::finish() {
  if (!homeless_.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(homeless_.size(), 4); ++i)
      names += (i ? ", " : "") + homeless_[i];
    if (homeless_.size() > 4) names += " and " + std::to_string(homeless_.size() - 4) + " more";
    note("Which NUMA node is close to " + names + " is not known; taken as " +
         graph_.vertices[numa_nodes_.front()].name + ".");
  }
  // NUMA nodes that no socket holds are peers of the sockets.
  std::vector<vertex_id> peers = sockets_;
  std::vector<bool> held(graph_.vertices.size(), false);
  for (const edge& e : graph_.edges)
    if (graph_.vertices[e.to].kind == vertex_kind::socket && e.kind == edge_kind::internal) held[e.from] = true;
  for (vertex_id node : numa_nodes_)
    if (!held[node]) peers.push_back(node);
  link_all(peers);
  number_devices(graph_);
}

void number_devices(graph& g) {
  unsigned count = 0;
  for (vertex_id v : g.gpus()) g.vertices[v].name = "GPU " + std::to_string(count++);
  count = 0;
  for (vertex& v : g.vertices) {
    if (v.kind != vertex_kind::nic) continue;
    // "NIC 3 eth0" has been numbered before.
    const std::size_t own = v.name.starts_with("NIC ") ? v.name.find(' ', 4) : std::string::npos;
    const std::string name = own != v.name.npos ? v.name.substr(own + 1) : v.name.starts_with("NIC ") ? "" : v.name;
    v.name = "NIC " + std::to_string(count++) + (name.empty() ? "" : " " + name);
  }
}

}  // namespace xyl::topo
