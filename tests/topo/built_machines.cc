// SPDX-License-Identifier: BSD-3-Clause
#include "topo/built_machines.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace xyl::topo::test {
namespace {

vertex named(vertex_kind kind, const std::string& name) {
  vertex v;
  v.kind = kind;
  v.name = name;
  return v;
}

vertex numbered(vertex_kind kind, const std::string& name, unsigned number) {
  vertex v = named(kind, name + " " + std::to_string(number));
  v.os_index = number;
  return v;
}

vertex device(vertex_kind kind, const std::string& name, unsigned bus) {
  vertex v = named(kind, name + " " + std::to_string(bus));
  v.pci = pci_address{.domain = 0, .bus = static_cast<std::uint8_t>(bus)};
  return v;
}

}  // namespace

vertex_id machine_builder::socket(unsigned number) {
  return g.add(numbered(vertex_kind::socket, "socket", number));
}

vertex_id machine_builder::numa(unsigned number, vertex_id socket_or_none, bool with_memory) {
  const vertex_id node = g.add(numbered(vertex_kind::numa_node, "NUMA node", number));
  if (socket_or_none != no_vertex) g.link(socket_or_none, node, edge_kind::internal, {}, {});
  if (with_memory) {
    const vertex_id memory = g.add(numbered(vertex_kind::host_memory, "memory", number));
    g.link(node, memory, edge_kind::memory, {}, {});
  }
  return node;
}

vertex_id machine_builder::root_complex(vertex_id above) {
  const vertex_id rc = g.add(named(vertex_kind::root_complex, "root complex " + std::to_string(next_bus_)));
  if (above != no_vertex) g.link(above, rc, edge_kind::internal, {}, {});
  return rc;
}

vertex_id machine_builder::pci_switch(vertex_id above, figure capacity) {
  const vertex_id v = g.add(device(vertex_kind::pci_switch, "switch", next_bus_++));
  g.link(above, v, edge_kind::pcie, capacity, {});
  return v;
}

vertex_id machine_builder::gpu(vertex_id above, figure capacity) {
  const vertex_id v = g.add(device(vertex_kind::gpu, "GPU", next_bus_++));
  if (above != no_vertex) g.link(above, v, edge_kind::pcie, capacity, {});
  return v;
}

graph switched(const std::vector<unsigned>& gpus_of_switch, const std::vector<unsigned>& socket_of_switch,
               figure uplink) {
  machine_builder b;
  std::map<unsigned, vertex_id> numa;
  vertex_id first_socket = no_vertex;
  for (unsigned s : socket_of_switch)
    if (!numa.contains(s)) {
      const vertex_id socket = b.socket(s);
      if (first_socket == no_vertex)
        first_socket = socket;
      else
        b.connect(first_socket, socket, edge_kind::socket_link, nominal(128));
      numa[s] = b.numa(s, socket);
    }
  for (std::size_t i = 0; i < gpus_of_switch.size(); ++i) {
    const vertex_id sw = b.pci_switch(b.root_complex(numa[socket_of_switch[i]]), uplink);
    for (unsigned j = 0; j < gpus_of_switch[i]; ++j) b.gpu(sw);
  }
  return b.g;
}

graph direct_attached(figure socket_link) {
  machine_builder b;
  const vertex_id first = b.socket(0), second = b.socket(1);
  b.connect(first, second, edge_kind::socket_link, socket_link);
  for (unsigned s = 0; s < 2; ++s) {
    const vertex_id numa = b.numa(s, s == 0 ? first : second);
    for (int i = 0; i < 4; ++i) b.gpu(b.root_complex(numa));
  }
  return b.g;
}

graph flat_virtual_machine(unsigned gpus) {
  machine_builder b;
  const vertex_id rc = b.root_complex(no_vertex);
  for (unsigned i = 0; i < gpus; ++i) b.gpu(rc, {});
  return b.g;
}

graph one_switch(unsigned gpus, figure capacity) {
  machine_builder b;
  const vertex_id sw = b.pci_switch(b.root_complex(no_vertex));
  for (unsigned i = 0; i < gpus; ++i) b.gpu(sw, capacity);
  return b.g;
}

graph with_nvswitch(unsigned gpus, double capacity) {
  graph g = switched(std::vector<unsigned>(gpus / 2, 2), [&] {
    std::vector<unsigned> sockets;
    for (unsigned i = 0; i < gpus / 2; ++i) sockets.push_back(i / ((gpus / 2 + 1) / 2));
    return sockets;
  }());
  const vertex_id nvswitch = g.add(named(vertex_kind::nv_switch, "NVSwitch"));
  for (vertex_id gpu : g.gpus()) g.link(gpu, nvswitch, edge_kind::nvlink, nominal(capacity), {});
  return g;
}

graph cube_mesh() {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1}, nominal(gen4_x16));
  const std::vector<vertex_id> gpus = g.gpus();
  const auto join = [&](unsigned a, unsigned b, unsigned links) {
    g.edges[g.link(gpus[a], gpus[b], edge_kind::nvlink, nominal(25.0 * links), {})].links = links;
  };
  for (unsigned half : {0u, 4u}) {
    join(half, half + 1, 1), join(half, half + 2, 1), join(half, half + 3, 2);
    join(half + 1, half + 2, 2), join(half + 1, half + 3, 1), join(half + 2, half + 3, 1);
  }
  join(0, 4, 2), join(1, 5, 2), join(2, 6, 2), join(3, 7, 2);
  return g;
}

graph four_sockets() {
  machine_builder b;
  std::vector<vertex_id> sockets;
  for (unsigned s = 0; s < 4; ++s) sockets.push_back(b.socket(s));
  for (unsigned a = 0; a < 4; ++a)
    for (unsigned c = a + 1; c < 4; ++c)
      // Neighbours in number are far from each other: the default order is the slow one.
      b.connect(sockets[a], sockets[c], edge_kind::socket_link, nominal((a ^ c) == 1 ? 10 : 60));
  for (unsigned s = 0; s < 4; ++s) {
    const vertex_id sw = b.pci_switch(b.root_complex(b.numa(s, sockets[s])));
    for (int i = 0; i < 2; ++i) b.gpu(sw);
  }
  return b.g;
}

graph random_tree(unsigned gpus, unsigned seed) {
  std::mt19937 random(seed);
  machine_builder b;
  std::vector<vertex_id> inner{b.root_complex(no_vertex)};
  const unsigned switches = 1 + random() % 5;
  for (unsigned i = 0; i < switches; ++i)
    inner.push_back(b.pci_switch(inner[random() % inner.size()], nominal(10 + random() % 60)));
  for (unsigned i = 0; i < gpus; ++i) b.gpu(inner[random() % inner.size()], nominal(10 + random() % 60));
  return b.g;
}

graph quadrants(double total) {
  machine_builder b;
  const vertex_id socket = b.socket(0);
  for (unsigned q = 0; q < 4; ++q) {
    const vertex_id numa = b.numa(q, socket);
    for (int i = 0; i < 2; ++i) b.gpu(b.root_complex(numa));
    capacity_group group{.name = "quadrant " + std::to_string(q), .edges = {}, .total = measured(total)};
    for (std::uint32_t e = 0; e < b.g.edges.size(); ++e)
      if (b.g.edges[e].kind == edge_kind::memory && (b.g.edges[e].from == numa || b.g.edges[e].to == numa))
        group.edges.push_back(e);
    b.g.groups.push_back(group);
  }
  return b.g;
}

graph permuted(const graph& g, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<vertex_id> place(g.vertices.size());
  std::iota(place.begin(), place.end(), 0u);
  std::shuffle(place.begin(), place.end(), random);
  graph out = g;
  for (vertex_id v = 0; v < place.size(); ++v) out.vertices[place[v]] = g.vertices[v];
  std::vector<std::uint32_t> at(g.edges.size());
  std::iota(at.begin(), at.end(), 0u);
  std::shuffle(at.begin(), at.end(), random);
  for (std::uint32_t e = 0; e < at.size(); ++e) {
    edge moved = g.edges[e];
    moved.from = place[moved.from];
    moved.to = place[moved.to];
    moved.reverse = at[moved.reverse];
    out.edges[at[e]] = moved;
  }
  for (capacity_group& group : out.groups)
    for (std::uint32_t& e : group.edges) e = at[e];
  std::shuffle(out.groups.begin(), out.groups.end(), random);
  for (pair_figure& p : out.pairs) {
    p.from = place[p.from];
    p.to = place[p.to];
  }
  std::shuffle(out.pairs.begin(), out.pairs.end(), random);
  return out;
}

}  // namespace xyl::topo::test
