// SPDX-License-Identifier: BSD-3-Clause
// How data gets from one GPU to another: the class that `nvidia-smi topo -m` prints, what limits it, and which
// edges it loads. Computed from the graph alone and for one ordered pair at a time, so that a cluster of thousands
// of GPUs never needs a matrix. Both figures of a path carry data from `from` to `to`: `write` when `from` pushes,
// `read` when `to` pulls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo {

enum class path_class : std::uint8_t {
  loc,   // the same GPU
  nv,    // NVLink, direct or through NVSwitches: "NV" and the number of links
  pix,   // one PCIe switch
  pxb,   // several PCIe switches, no root complex
  phb,   // one root complex
  node,  // several root complexes of one NUMA node
  sys,   // from one NUMA node to another
  host,  // no peer-to-peer (vetoed, or no route is known): staged through host memory
};

struct path {
  path_class what = path_class::host;
  unsigned nvlinks = 0;  // of the narrowest edge; 0 unless `what` is nv
  // What the narrowest edge or capacity group lets through, in GB/s. An edge without information limits nothing,
  // but then the path is trusted less. Not known: no edge of it is, or both ends are the same GPU.
  figure write;
  figure read;
  figure latency;     // us one way: the sum over the edges, or the pair's own; unknown unless all are
  unsigned hops = 0;  // edges crossed
  std::vector<std::uint32_t> edges;  // indices into graph::edges in order from `from` to `to`
};

// "LOC", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS" or "HOST".
[[nodiscard]] std::string name_of(const path& p);

// For many pairs of one graph: the neighbours of each vertex are listed once. Keeps a reference to the graph, which
// must not change meanwhile.
class path_finder {
 public:
  explicit path_finder(const graph& g);

  // Shortest by edges, then widest. Never through a third GPU or a NIC. Ids that the graph does not have give
  // `host` without edges. A pair figure of the graph replaces what the edges say.
  [[nodiscard]] path find(vertex_id from, vertex_id to) const;

  // The same, without NVLink: what a pair falls back to, and what its NVLink is compared with.
  [[nodiscard]] path find_without_nvlink(vertex_id from, vertex_id to) const;

  // Staged through one host memory: `from` writes to it, `to` reads from it; both figures are what the slower half
  // lets through. `host` without edges if there is no way.
  [[nodiscard]] path find_staged(vertex_id from, vertex_id memory, vertex_id to) const;

  // The host memory with the fewest edges from `from`, then the lowest id; no_vertex if it reaches none.
  [[nodiscard]] vertex_id nearest_memory(vertex_id from) const;

 private:
  using edge_list = std::vector<std::uint32_t>;
  enum class over : std::uint8_t { nvlink, the_rest };
  [[nodiscard]] bool route(vertex_id from, vertex_id to, over what, edge_list& edges) const;
  [[nodiscard]] bool knows(vertex_id v) const { return v < first_.size() - 1; }

  const graph& graph_;
  std::vector<std::uint32_t> first_;     // of each vertex, where its edges begin in outgoing_; one more at the end
  std::vector<std::uint32_t> outgoing_;  // edge indices by their `from`
};

[[nodiscard]] path find_path(const graph& g, vertex_id from, vertex_id to);

}  // namespace xyl::topo
