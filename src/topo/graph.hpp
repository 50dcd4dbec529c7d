// SPDX-License-Identifier: BSD-3-Clause
// The machine as a plain value: vertices (GPUs, NICs, PCIe switches, root ports, root complexes, NUMA nodes,
// sockets, host memories, NVSwitches) and directed edges between them. Each number carries where it came from and
// how far it may be trusted. No type of the library that discovered it (hwloc, NVML, libpci) appears here: every
// reader fills this type, and paths, plans and costs are computed from it alone, so that a file, a live machine and
// a test are the same thing to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace xyl::topo {

// Where a number came from; a later source replaces an earlier one (merge() in figure).
enum class source : std::uint8_t { none, nominal, measured, user };
// none: no information (a virtual bridge that claims Gen1 x1, a width of 0); low: guessed from context (a flat
// virtual machine, an idle link); medium: stated by the hardware's description; high: measured, or a user's word.
enum class confidence : std::uint8_t { none, low, medium, high };

// A number with its origin. Capacities are in GB/s (1e9 bytes a second), latencies in microseconds.
struct figure {
  double value = 0;
  source from = source::none;
  confidence trust = confidence::none;

  [[nodiscard]] bool known() const { return trust != confidence::none; }
  bool operator==(const figure&) const = default;
};

struct pci_address {
  std::uint32_t domain = 0;
  std::uint8_t bus = 0;
  std::uint8_t device = 0;
  std::uint8_t function = 0;
  auto operator<=>(const pci_address&) const = default;
};

enum class vertex_kind : std::uint8_t {
  gpu,
  nic,
  pci_switch,    // one switch chip or one of its virtual partitions: upstream and downstream ports are its edges
  root_port,     // a bridge below the root complex
  root_complex,  // a host bridge
  numa_node,
  socket,
  host_memory,  // of one NUMA node
  nv_switch,
};

using vertex_id = std::uint32_t;
inline constexpr vertex_id no_vertex = std::numeric_limits<vertex_id>::max();

struct vertex {
  vertex_kind kind = vertex_kind::gpu;
  std::string name;                  // for people: "GPU 3", "NUMA node 0", "PCIe switch 1000:c030"
  std::optional<pci_address> pci;    // GPUs, NICs, ports; of a switch: its upstream port
  std::optional<unsigned> os_index;  // NUMA nodes, sockets
  // GPUs only.
  std::string uuid;              // as the driver prints it; empty if unknown
  unsigned sm = 0;               // compute capability, 10 * major + minor; 0 if unknown
  std::uint64_t bar1_bytes = 0;  // 0 if unknown
  bool mig = false;
  // PCI ports and devices: what was read of access control services and address translation; empty if unreadable.
  std::optional<bool> acs_redirect;
  std::optional<bool> iommu_translates;
  // The identity of the chip, where two partitions of one chip are known to share it; empty otherwise.
  std::string chip;
};

enum class edge_kind : std::uint8_t { pcie, nvlink, socket_link, memory, internal };

// One direction of a link. A posted write from the `from` side crosses it at `write`; data that somebody on the
// `to` side reads from the `from` side crosses it at `read`. Both directions of a link are two edges, `reverse` of
// each other.
struct edge {
  vertex_id from = no_vertex;
  vertex_id to = no_vertex;
  std::uint32_t reverse = 0;  // index of the other direction
  edge_kind kind = edge_kind::pcie;
  unsigned links = 1;  // NVLink: how many are merged in this edge
  figure write;
  figure read;
  figure latency;
  figure current;  // PCIe: capacity of the link as trained now, for advice; `write` and `read` use the maximum
};

// A measured total that several edges share: a root complex, a quadrant, a switch chip, a host memory.
struct capacity_group {
  std::string name;
  std::vector<std::uint32_t> edges;  // indices; their loads add up
  figure total;
};

// What was measured, or told by a user, of one ordered pair of GPUs; it overrides what the path says. Of a GPU and
// a host memory: `write` from the GPU, or `read` by it, which are the halves of a staged way.
struct pair_figure {
  vertex_id from = no_vertex;
  vertex_id to = no_vertex;
  figure write;
  figure read;
  figure flag_latency;               // one way, us
  std::optional<bool> peer_to_peer;  // a probe's verdict: false is a veto
};

struct graph {
  std::vector<vertex> vertices;
  std::vector<edge> edges;
  std::vector<capacity_group> groups;
  std::vector<pair_figure> pairs;
  // GPUs of one switch that write to two root complexes at once fall to this share of the capacity; no figure: no
  // collapse known.
  figure write_collapse;
  std::vector<std::string> notes;  // what was odd about the input, in sentences

  vertex_id add(vertex v);
  // Both directions of a link with equal capacities (GB/s each way) and latency; returns the index of from -> to.
  std::uint32_t link(vertex_id from, vertex_id to, edge_kind kind, figure capacity, figure latency);
  // GPUs by PCI address, then in the order they were added: the order in which ranks are planned, whatever order
  // discovery or CUDA_VISIBLE_DEVICES gave.
  [[nodiscard]] std::vector<vertex_id> gpus() const;
};

}  // namespace xyl::topo
