// SPDX-License-Identifier: BSD-3-Clause
// Machines built by hand, as the readers would build them from files: a root complex below each NUMA node or
// socket, switches and GPUs below it. Every figure is in GB/s or us.
#pragma once

#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo::test {

inline figure nominal(double value) { return {value, source::nominal, confidence::medium}; }
inline figure measured(double value) { return {value, source::measured, confidence::high}; }
inline constexpr double gen5_x16 = 63.0;
inline constexpr double gen4_x16 = 31.5;

// Adds vertices with names and PCI addresses in order of addition.
class machine_builder {
 public:
  graph g;

  vertex_id socket(unsigned number);
  vertex_id numa(unsigned number, vertex_id socket_or_none, bool with_memory = true);
  vertex_id root_complex(vertex_id above);
  vertex_id pci_switch(vertex_id above, figure capacity = nominal(gen5_x16));
  vertex_id gpu(vertex_id above, figure capacity = nominal(gen5_x16));
  void connect(vertex_id a, vertex_id b, edge_kind kind, figure capacity) { g.link(a, b, kind, capacity, {}); }
  // Every ordered pair for which `applies`; the write and read figures.
  template <typename Applies>
  void measure_pairs(figure write, figure read, figure flag, Applies applies) {
    const std::vector<vertex_id> gpus = g.gpus();
    for (vertex_id a : gpus)
      for (vertex_id b : gpus)
        if (a != b && applies(a, b))
          g.pairs.push_back(
              {.from = a, .to = b, .write = write, .read = read, .flag_latency = flag, .peer_to_peer = {}});
  }

 private:
  unsigned next_bus_ = 1;
};

// switches[i]: GPUs of the i-th switch, each below a root complex of its own; sockets[i]: the socket of that root
// complex.
graph switched(const std::vector<unsigned>& gpus_of_switch, const std::vector<unsigned>& socket_of_switch,
               figure uplink = nominal(gen5_x16));
// Two sockets, four GPUs each, no switch.
graph direct_attached(figure socket_link = nominal(128));
// One root complex, GPUs right below it, nothing known of any link.
graph flat_virtual_machine(unsigned gpus);
// GPUs below one switch.
graph one_switch(unsigned gpus, figure capacity = nominal(gen5_x16));
// GPUs that reach each other over an NVSwitch, two to a PCIe switch.
graph with_nvswitch(unsigned gpus, double capacity);
// Eight GPUs, NVLinks as in a hybrid cube mesh: four to each GPU, two of them to one peer in the other half.
graph cube_mesh();
// Four sockets linked in a square with one diagonal slow; two GPUs each.
graph four_sockets();
// A tree of switches with random degrees: `gpus` leaves, PCI addresses interleaved.
graph random_tree(unsigned gpus, unsigned seed);
// NUMA nodes of one socket as quadrants with a total each; two GPUs to a quadrant.
graph quadrants(double total);

// The same machine with vertices, edges, groups and pairs in another order.
graph permuted(const graph& g, unsigned seed);

}  // namespace xyl::topo::test
