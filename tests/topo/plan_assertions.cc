// SPDX-License-Identifier: BSD-3-Clause
#include "topo/plan_assertions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "topo/built_machines.hpp"
#include "topo/capacity.hpp"
#include "topo/fabric.hpp"
#include "topo/rings.hpp"

namespace xyl::topo::test {
namespace {

constexpr std::uint64_t sizes[] = {0, 1, 4096, 65536, 1 << 20, 64 << 20, 1ull << 30};

// Whether removing both directions of an edge separates GPUs from each other; the reach of a plain search, by
// design without anything the planner uses.
bool separates(const graph& g, std::uint32_t edge_index, std::vector<bool>& side) {
  side.assign(g.vertices.size(), false);
  std::vector<vertex_id> queue{g.edges[edge_index].from};
  side[queue[0]] = true;
  for (std::size_t i = 0; i < queue.size(); ++i)
    for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
      if (g.edges[e].from != queue[i] || e == edge_index || e == g.edges[edge_index].reverse) continue;
      if (g.edges[e].kind == edge_kind::nvlink || side[g.edges[e].to]) continue;
      side[g.edges[e].to] = true;
      queue.push_back(g.edges[e].to);
    }
  if (side[g.edges[edge_index].to]) return false;
  bool here = false, there = false;
  for (vertex_id v : g.gpus()) (side[v] ? here : there) = true;
  return here && there;
}

bool uses_nvlink(const fabric& f) {
  return std::any_of(f.routes.begin(), f.routes.end(), [](const route& r) { return r.what == path_class::nv; });
}

fabric fabric_of(const graph& g) {
  fabric f;
  const auto gpus = g.gpus();
  EXPECT_TRUE(make_fabric(g, gpus, {}, false, f).ok());
  return f;
}

}  // namespace

plan plan_of(const graph& g, const plan_request& request) {
  plan p;
  const result made = make_plan(g, request, p);
  EXPECT_TRUE(made.ok()) << made.text();
  return p;
}

plan plan_of(const graph& g) { return plan_of(g, one_rank_per_gpu(g)); }

std::string in_terms_of_hardware(const plan& p) {
  std::ostringstream out;
  out.precision(9);
  const auto place = [&](int rank) {
    const rank_place& at = p.places[static_cast<std::size_t>(rank)];
    return at.pci.empty() ? at.gpu : at.pci;
  };
  for (const auto& ring : p.rings) {
    out << "\nring";
    for (int rank : ring) out << ' ' << place(rank);
  }
  out << "\nrate " << p.ring_rate << " staged " << p.host_staged;
  for (const auto& tree : p.trees) {
    std::set<std::string> edges;
    for (std::size_t rank = 0; rank < tree.size(); ++rank)
      edges.insert(place(static_cast<int>(rank)) + "<" + (tree[rank] < 0 ? "" : place(tree[rank])));
    out << "\ntree";
    for (const std::string& e : edges) out << ' ' << e;
  }
  for (const island_set& set : p.islands) {
    out << "\n" << name_of(set.kind);
    for (const auto& island : set.ranks) {
      out << " [";
      for (int rank : island) out << place(rank) << ' ';
      out << "]";
    }
  }
  std::set<std::string> bounces;
  for (const bounce& b : p.bounces) bounces.insert(place(b.rank) + " in " + b.memory);
  for (const std::string& b : bounces) out << "\nbounce " << b;
  for (const collective_plan& c : p.collectives) {
    out << "\n" << name_of(c.what);
    for (const size_range& r : c.ranges) out << " " << r.up_to_bytes << ":" << name_of(c.candidates[r.candidate]);
    for (const candidate& x : c.candidates)
      out << "\n  " << name_of(x) << " " << x.cost.fixed_us << " " << x.cost.ns_per_byte;
  }
  return out.str();
}

void expect_complete(const graph& g) {
  const plan p = plan_of(g);
  const std::size_t ranks = g.gpus().size();
  const auto expect_all_once = [&](std::vector<int> list) {
    std::sort(list.begin(), list.end());
    std::vector<int> all(ranks);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(list, all);
  };
  EXPECT_FALSE(p.rings.empty());
  for (const auto& ring : p.rings) expect_all_once(ring);
  for (const island_set& set : p.islands) {
    std::vector<int> list;
    for (const auto& island : set.ranks) list.insert(list.end(), island.begin(), island.end());
    expect_all_once(list);
  }
  for (const auto& tree : p.trees) {
    EXPECT_EQ(std::count(tree.begin(), tree.end(), -1), 1);
    for (std::size_t rank = 0; rank < tree.size(); ++rank) {
      std::size_t steps = 0;
      for (int at = static_cast<int>(rank); at >= 0 && steps <= ranks; at = tree[static_cast<std::size_t>(at)])
        ++steps;
      EXPECT_LE(steps, ranks) << "a cycle above rank " << rank;
    }
  }
  for (const collective_plan& c : p.collectives) {
    ASSERT_FALSE(c.ranges.empty());
    EXPECT_EQ(c.ranges.back().up_to_bytes, std::numeric_limits<std::uint64_t>::max());
    // The winner is the fastest of all.
    for (std::uint64_t bytes : sizes)
      for (const candidate& x : c.candidates)
        EXPECT_LE(c.predicted_us(bytes), x.cost.us(bytes) * (1 + 1e-6) + 1e-3) << name_of(x) << " at " << bytes;
  }
}

void expect_invariant(const graph& g) {
  const std::string once = in_terms_of_hardware(plan_of(g));
  for (unsigned seed = 1; seed <= 4; ++seed) {
    EXPECT_EQ(in_terms_of_hardware(plan_of(permuted(g, seed))), once) << "vertices permuted, seed " << seed;
    plan_request request = one_rank_per_gpu(g);
    std::shuffle(request.gpu_of_rank.begin(), request.gpu_of_rank.end(), std::mt19937(seed));
    EXPECT_EQ(in_terms_of_hardware(plan_of(g, request)), once) << "ranks permuted, seed " << seed;
  }
}

void expect_optimal_on_bridges(const graph& g) {
  const fabric f = fabric_of(g);
  if (f.gpus.size() < 2 || f.any_staged() || uses_nvlink(f)) return;
  const ring_set rings = make_rings(f);
  double bound = std::numeric_limits<double>::infinity();
  bool all_bridges = f.groups.empty();
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    std::vector<bool> side;
    const bool used = std::any_of(f.routes.begin(), f.routes.end(), [&](const route& r) {
      return std::find(r.edges.begin(), r.edges.end(), e) != r.edges.end();
    });
    if (!used) continue;
    if (!separates(g, e, side)) {
      all_bridges = false;
      continue;
    }
    bound = std::min(bound, f.write[e]);
    for (const auto& order : rings.orders) {
      unsigned crossings = 0;
      for (std::size_t i = 0; i < order.size(); ++i)
        crossings += side[f.gpus[order[i]]] && !side[f.gpus[order[(i + 1) % order.size()]]];
      EXPECT_EQ(crossings, 1u) << g.vertices[g.edges[e].from].name << " -> " << g.vertices[g.edges[e].to].name;
    }
  }
  if (all_bridges && bound < std::numeric_limits<double>::infinity()) {
    EXPECT_NEAR(rings.rate, bound, bound * 0.01);
  }
}

// Bytes over the direction that leaves a set of GPUs by an edge that nothing goes around, per byte of message.
double load_over(const candidate& c, std::uint32_t edge) {
  double sum = 0;
  for (const phase_cost& phase : c.phases)
    for (const edge_load& load : phase.loads)
      if (load.edge == edge) sum += load.write;
  return sum;
}

void expect_loads_of_formulas(const graph& g) {
  const fabric f = fabric_of(g);
  if (f.gpus.size() < 2 || f.any_staged() || uses_nvlink(f)) return;
  const plan p = plan_of(g);
  const auto n = static_cast<double>(f.gpus.size());
  const std::vector<vertex_id> gpus = g.gpus();
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    std::vector<bool> side;
    if (!separates(g, e, side)) continue;
    std::set<int> here;
    for (std::size_t rank = 0; rank < gpus.size(); ++rank)
      if (side[gpus[rank]]) here.insert(static_cast<int>(rank));
    const auto k = static_cast<double>(here.size());
    for (const candidate& c : p.find(pattern::all_reduce)->candidates) {
      if (c.inside == direction::pull || c.across == direction::pull) continue;
      double formula = -1;
      if (c.how == method::packet) formula = 2 * k * (n - k);
      if (c.how == method::one_shot) formula = k * (n - k);
      if (c.how == method::two_shot_packet) formula = 4 * k * (n - k) / n;
      if (c.how == method::two_shot) formula = 2 * k * (n - k) / n;
      if (c.how == method::ring || c.how == method::copy_engine_ring) formula = 2 * (n - 1) / n;
      if (c.how == method::hierarchical)
        for (const island_set& set : p.islands)
          for (const auto& island : set.ranks)
            if (set.kind == c.level && std::set<int>(island.begin(), island.end()) == here) {
              const auto islands = static_cast<double>(set.ranks.size());
              formula = 2 * (islands - 1) / islands;
            }
      if (formula >= 0) {
        EXPECT_NEAR(load_over(c, e), formula, 1e-9)
            << name_of(c) << ": " << g.vertices[g.edges[e].from].name << " -> " << g.vertices[g.edges[e].to].name;
      }
    }
  }
}

void expect_one_target(const graph& g) {
  graph flagged = g;
  flagged.write_collapse = measured(0.05);
  const plan p = plan_of(flagged);
  for (const collective_plan& c : p.collectives)
    for (const candidate& x : c.candidates) {
      if (in_rank_order(x.how) && !x.staged) continue;
      for (const phase_cost& phase : x.phases)
        EXPECT_LE(phase.most_targets, 1u) << name_of(c.what) << " " << name_of(x) << ": " << phase.name;
    }
}

void expect_monotonic(const graph& g) {
  const plan p = plan_of(g);
  for (const collective_plan& c : p.collectives) {
    double before = 0;
    for (std::uint64_t bytes : sizes) {
      EXPECT_GE(c.predicted_us(bytes), before) << name_of(c.what) << " at " << bytes;
      before = c.predicted_us(bytes);
    }
  }
  // Slowing an edge must not change the way data takes where there are several of the same length.
  for (std::uint32_t e = 0; e < g.edges.size(); e += 2) {
    if (!g.edges[e].write.known()) continue;
    graph slower = g;
    for (std::uint32_t at : {e, g.edges[e].reverse})
      for (figure* f : {&slower.edges[at].write, &slower.edges[at].read}) f->value *= 0.4;
    const plan q = plan_of(slower);
    for (std::size_t i = 0; i < p.collectives.size(); ++i)
      for (std::uint64_t bytes : sizes)
        EXPECT_GE(q.collectives[i].predicted_us(bytes), p.collectives[i].predicted_us(bytes) * (1 - 1e-9))
            << name_of(p.collectives[i].what) << " at " << bytes << " with a slower "
            << g.vertices[g.edges[e].from].name << " - " << g.vertices[g.edges[e].to].name;
  }
}

void expect_staged_after_veto(const graph& g) {
  const std::vector<vertex_id> gpus = g.gpus();
  if (gpus.size() < 2) return;
  graph vetoed = g;
  vetoed.pairs.clear();
  for (vertex_id a : gpus)
    for (vertex_id b : gpus)
      if (a != b) {
        pair_figure veto;
        veto.from = a;
        veto.to = b;
        veto.peer_to_peer = false;
        vetoed.pairs.push_back(veto);
      }
  const plan all = plan_of(vetoed);
  EXPECT_TRUE(all.host_staged);
  EXPECT_EQ(all.bounces.size(), gpus.size());
  vetoed.pairs.resize(1);
  const plan one = plan_of(vetoed);
  EXPECT_TRUE(one.host_staged);
  EXPECT_EQ(one.bounces.size(), 1u);
  EXPECT_FALSE(one.notes.empty());
  // Where bounce buffers lie must not depend on numbering either.
  expect_invariant(vetoed);
}

void expect_sound(const graph& g, const std::string& name) {
  SCOPED_TRACE(name);
  expect_complete(g);
  expect_invariant(g);
  expect_optimal_on_bridges(g);
  expect_loads_of_formulas(g);
  expect_one_target(g);
  expect_monotonic(g);
  expect_staged_after_veto(g);
}

}  // namespace xyl::topo::test
