// SPDX-License-Identifier: BSD-3-Clause
// A collective as phases: who sends how many bytes to whom at the same time, and how many rounds of flags that
// takes. Bytes are per byte of message, so that a phase costs rounds * (flags + synchronisation) + slope * message.
// A phase begins when the one before has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/fabric.hpp"
#include "topo/islands.hpp"
#include "topo/loads.hpp"
#include "topo/method.hpp"
#include "topo/rings.hpp"
#include "topo/trees.hpp"

namespace xyl::topo {

struct transfer {
  std::uint16_t from = 0;  // members
  std::uint16_t to = 0;
  double bytes = 0;
};

struct phase {
  const char* name = "";
  direction how = direction::push;
  unsigned rounds = 1;
  // Flag ways per round. A packet is its own flag. Data with a flag after it has to arrive before the flag is sent:
  // two ways; a pull waits for a flag and then makes a round trip. Pipelined rounds hide that behind the next part.
  double flag_ways = 2;
  bool copy_engine = false;
  double stretch = 1;  // of a pipeline that fills and drains
  std::vector<transfer> transfers;
};

struct schedule {
  pattern what = pattern::all_reduce;
  method how = method::one_shot;
  direction inside = direction::push;  // islands; of flat algorithms both are the same
  direction across = direction::push;
  bool staged = false;   // phases are split so that each switch writes to one root complex at a time
  bool by_ring = false;  // hierarchical: islands exchange around a ring, not all to all
  island_kind level = island_kind::node;  // hierarchical: the islands
  std::vector<phase> phases;
};

// All schedules worth a price for this collective. root: a member, for broadcast. Where a write collapse is
// flagged, no ring, tree or hierarchical schedule in the list has a phase in which one switch writes to two root
// complexes.
[[nodiscard]] std::vector<schedule> schedules_for(const fabric& f, pattern what, const ring_set& rings,
                                                  std::span<const island_level> levels, std::uint16_t root);

// The trees of an allreduce over positions of `order` (a ring's): the message is shared between them.
[[nodiscard]] std::vector<tree_parents> trees_along(const fabric& f, std::span<const std::uint16_t> order);

// What the edges carry in a phase.
[[nodiscard]] load_table loads_of(const fabric& f, const phase& p);

// Each switch writes to at most one root complex.
[[nodiscard]] bool respects_collapse(const fabric& f, const schedule& s);

}  // namespace xyl::topo
