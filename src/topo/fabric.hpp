// SPDX-License-Identifier: BSD-3-Clause
// What planning needs of a graph for one set of ranks: their GPUs in an order that does not depend on how ranks,
// vertices or devices were numbered, the route of each pair of GPUs, and the capacity that each edge is believed to
// have. Ranks in this order are called members; everything below plan.hpp talks about members and becomes ranks at
// the end. Keeps a reference to the graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "topo/cost_constants.hpp"
#include "topo/graph.hpp"
#include "topo/paths.hpp"

namespace xyl::topo {

inline constexpr std::size_t most_members = 256;

struct route {
  path_class what = path_class::loc;
  unsigned nvlinks = 0;
  std::vector<std::uint32_t> edges;
  // The first so many edges carry writes when the sender pushes. After a bounce buffer in host memory the receiver
  // reads the rest; without one it is all of them.
  std::uint32_t written = 0;
  double flag_us = 0;            // one way
  vertex_id memory = no_vertex;  // the bounce buffer's, where there is one
  vertex_id target = no_vertex;  // the last root complex that writes cross; no_vertex: they leave no switch
  bool pull_trusted = false;     // reads were measured, or are known to be good
  [[nodiscard]] bool staged() const { return what == path_class::host; }
};

struct fabric_group {
  std::string name;
  std::vector<std::uint32_t> edges;
  double total;
};

struct fabric {
  const graph* machine = nullptr;
  cost_constants constants;

  std::vector<int> rank_of_member;
  std::vector<std::uint16_t> gpu_of_member;  // index into gpus
  std::vector<vertex_id> gpus;               // the GPUs in use, by address
  std::vector<route> routes;                 // [from * gpus + to]
  std::vector<std::uint16_t> switch_of_gpu;  // no_switch where there is none

  // Of each edge, GB/s that a multiprocessor's stores, or loads, get; infinite where nothing limits.
  std::vector<double> write;
  std::vector<double> read;
  // What a copy engine gets beside that, as a factor.
  std::vector<double> copy_engine_gain;
  std::vector<bool> leaves_switch;  // edges from a switch with GPUs upwards
  std::vector<fabric_group> groups;
  double collapse = 1;  // share that a collapse leaves; 1: none is known
  bool collapse_flagged = false;
  std::vector<std::string> notes;

  [[nodiscard]] const route& between(std::uint16_t from_gpu, std::uint16_t to_gpu) const {
    return routes[std::size_t{from_gpu} * gpus.size() + to_gpu];
  }
  [[nodiscard]] std::uint16_t members() const { return static_cast<std::uint16_t>(gpu_of_member.size()); }
  [[nodiscard]] bool any_staged() const;
};

// gpu_of_rank: a GPU vertex each; several ranks may share one. all_staged: as if every pair were vetoed.
// Errors (xylInvalidArgument): no rank, too many, or a vertex that is not a GPU.
result make_fabric(const graph& g, std::span<const vertex_id> gpu_of_rank, const cost_constants& constants,
                   bool all_staged, fabric& out);
// The graph has to outlive the fabric.
result make_fabric(const graph&& g, std::span<const vertex_id> gpu_of_rank, const cost_constants& constants,
                   bool all_staged, fabric& out) = delete;

}  // namespace xyl::topo
