// SPDX-License-Identifier: BSD-3-Clause
// What a planner found: how the ranks of one machine are ordered and grouped, and for each collective which
// algorithm for which size, with everything else that was considered and its predicted time. Values only, in terms
// of ranks; the graph that a plan was made of may be gone. plan_table.hpp has the part that all ranks must agree
// on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/cost.hpp"
#include "topo/graph.hpp"
#include "topo/islands.hpp"
#include "topo/method.hpp"

namespace xyl::topo {

struct phase_cost {
  std::string name;
  direction how = direction::push;
  unsigned rounds = 0;
  line cost;
  std::string bottleneck;
  unsigned most_targets = 0;     // root complexes that GPUs of one switch write to
  std::vector<edge_load> loads;  // bytes per byte of message
};

struct candidate {
  method how = method::one_shot;
  direction inside = direction::push;  // islands; of flat algorithms both are the same
  direction across = direction::push;
  bool staged = false;   // phases split so that each switch writes to one root complex at a time
  bool by_ring = false;  // hierarchical: islands exchange around a ring
  island_kind level = island_kind::node;
  line cost;
  std::vector<phase_cost> phases;
};
// "hierarchical by switch, ring across", "oneshot, pull", ...
[[nodiscard]] std::string name_of(const candidate& c);

struct size_range {
  std::uint64_t up_to_bytes = 0;  // inclusive; the last range has the largest number there is
  std::uint32_t candidate = 0;
};

struct collective_plan {
  pattern what = pattern::all_reduce;
  std::vector<candidate> candidates;  // all that were considered
  std::vector<size_range> ranges;     // the winners
  std::string reason;                 // why not all candidates could win: a variable, a file; "" if they could

  [[nodiscard]] const candidate& winner(std::uint64_t bytes) const;
  [[nodiscard]] double predicted_us(std::uint64_t bytes) const { return winner(bytes).cost.us(bytes); }
};

struct island_set {
  island_kind kind = island_kind::node;
  std::vector<std::vector<int>> ranks;  // islands, and ranks inside, in the order of the first ring
};

struct bounce {
  int rank = 0;        // the receiver, who owns the buffer
  std::string memory;  // name of the host memory
  int numa_node = -1;  // its number; -1 if unknown
};

struct rank_place {
  std::string gpu;  // name of the vertex
  std::string pci;  // "0000:16:00.0"; "" if unknown
};

struct plan {
  std::vector<rank_place> places;       // by rank
  std::vector<std::vector<int>> rings;  // ranks, each once a ring
  double ring_rate = 0;                 // GB/s that each ring edge gets, all rings at once
  std::vector<std::vector<int>> trees;  // the parent of each rank, -1 at the root; one or two trees
  std::vector<island_set> islands;      // fine to coarse
  bool collapse_flagged = false;
  bool host_staged = false;     // at least one pair cannot reach each other
  std::vector<bounce> bounces;  // where host_staged: by rank
  std::vector<collective_plan> collectives;
  std::vector<std::string> notes;

  [[nodiscard]] const collective_plan* find(pattern what) const;
};

}  // namespace xyl::topo
