// SPDX-License-Identifier: BSD-3-Clause
// What the readers of different formats do alike while they fill a graph: names, duplicate addresses, NVLinks and
// NVSwitches, the links between sockets, and what is assumed where a file is silent, each time with a note.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo {

// By PCI class and vendor; nothing for what no collective runs on: boards' display chips, storage, bridges.
[[nodiscard]] std::optional<vertex_kind> kind_of_device(unsigned pci_class, unsigned vendor);

[[nodiscard]] vertex make_vertex(vertex_kind kind, std::string name, std::optional<pci_address> pci = {},
                                 std::optional<unsigned> os_index = {});

// GPUs get the numbers that the driver gives them, in the order of their addresses, whatever the order in a file
// is; NICs a number before their name.
void number_devices(graph& g);

class assembly {
 public:
  explicit assembly(graph& g) : graph_(g) {}

  // With its host memory.
  vertex_id add_numa_node(std::optional<unsigned> os_index);
  vertex_id add_socket(std::optional<unsigned> os_index);
  vertex_id add_root_complex(const std::string& name, vertex_id home);
  // A GPU or NIC, named by finish(); takes an address away that another one has already.
  vertex_id add_device(vertex v, const std::string& software_name);

  // Where something is put whose place nobody knows: the first NUMA node, with a note.
  vertex_id some_numa_node(const std::string& what);

  // Both directions, GB/s each way; the number of links follows from it. A second one of the same pair is ignored.
  void add_nvlink(vertex_id a, vertex_id b, double gigabytes_per_second);
  // The same with the links counted and the capacity of each known or not (0).
  void add_nvlinks(vertex_id a, vertex_id b, unsigned links, double gigabytes_per_second_each, confidence trust);
  // The one vertex for all NVSwitches.
  vertex_id nv_switch();

  void note(std::string text);
  // Links sockets, and NUMA nodes that are in none, with each other; numbers GPUs and NICs; puts the notes that add
  // up into one.
  void finish();

 private:
  void link_all(const std::vector<vertex_id>& peers);

  graph& graph_;
  std::vector<vertex_id> numa_nodes_, sockets_;
  std::map<pci_address, vertex_id> devices_;
  std::map<std::pair<vertex_id, vertex_id>, std::uint32_t> nvlinks_;
  vertex_id nv_switch_ = no_vertex;
  std::vector<std::string> homeless_;
};

}  // namespace xyl::topo
