// SPDX-License-Identifier: BSD-3-Clause
// Each level is the connected components of the graph when only vertices up to that level are left: a switch island
// is what hangs together through GPUs and switches alone. Needs no knowledge of where a reader put what.
#include "topo/islands.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>

namespace xyl::topo {
namespace {

class disjoint_sets {
 public:
  explicit disjoint_sets(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::uint32_t{0});
  }
  std::uint32_t find(std::uint32_t v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::uint32_t> parent_;
};

bool belongs(vertex_kind vertex, island_kind level) {
  switch (vertex) {
    case vertex_kind::gpu:
      return true;
    case vertex_kind::nv_switch:
      return level == island_kind::nvlink;
    case vertex_kind::pci_switch:
      return level >= island_kind::pci_switch;
    case vertex_kind::root_port:
    case vertex_kind::root_complex:
      return level >= island_kind::root_complex;
    case vertex_kind::numa_node:
      return level >= island_kind::numa_node;
    case vertex_kind::socket:
      return level >= island_kind::socket;
    case vertex_kind::nic:
    case vertex_kind::host_memory:
      return false;
  }
  return false;
}

bool counts(const graph& g, const edge& e, island_kind level) {
  if ((e.kind == edge_kind::nvlink) != (level == island_kind::nvlink)) return false;
  if (e.kind == edge_kind::socket_link) return false;
  return belongs(g.vertices[e.from].kind, level) && belongs(g.vertices[e.to].kind, level);
}

// The least that was measured of pairs inside, and between, the sets that `set_of` tells; infinite where none was.
struct measured_pairs {
  double inside = std::numeric_limits<double>::infinity();
  double between = std::numeric_limits<double>::infinity();
};

// Virtual partitions of one chip sit below different root complexes but may have the full fabric between them: they
// are one island where measurements of all that was tried show no loss.
void join_partitions(const graph& g, disjoint_sets& sets) {
  for (vertex_id a = 0; a < g.vertices.size(); ++a) {
    if (g.vertices[a].kind != vertex_kind::pci_switch || g.vertices[a].chip.empty()) continue;
    for (vertex_id b = a + 1; b < g.vertices.size(); ++b) {
      if (g.vertices[b].kind != vertex_kind::pci_switch || g.vertices[b].chip != g.vertices[a].chip) continue;
      const std::uint32_t left = sets.find(a), right = sets.find(b);
      if (left == right) continue;
      measured_pairs seen;
      for (const pair_figure& p : g.pairs) {
        if (!p.write.known() || p.write.from == source::nominal) continue;
        const std::uint32_t from = sets.find(p.from), to = sets.find(p.to);
        if (from == to && (from == left || from == right)) seen.inside = std::min(seen.inside, p.write.value);
        if ((from == left && to == right) || (from == right && to == left))
          seen.between = std::min(seen.between, p.write.value);
      }
      constexpr double infinite = std::numeric_limits<double>::infinity();
      if (seen.inside < infinite && seen.between < infinite && seen.between >= 0.95 * seen.inside) sets.join(a, b);
    }
  }
}

disjoint_sets components(const graph& g, island_kind level) {
  disjoint_sets sets(g.vertices.size());
  if (level == island_kind::gpu) return sets;
  for (const edge& e : g.edges)
    if (counts(g, e, level)) sets.join(e.from, e.to);
  if (level >= island_kind::pci_switch) join_partitions(g, sets);
  return sets;
}

island_level level_of(const graph& g, std::span<const vertex_id> gpus, island_kind kind) {
  island_level level{.kind = kind, .count = 0, .of_member = std::vector<std::uint16_t>(gpus.size(), 0)};
  if (kind == island_kind::node) {
    level.count = gpus.empty() ? 0 : 1;
    return level;
  }
  disjoint_sets sets = components(g, kind);
  constexpr std::uint16_t unseen = 0xffff;
  std::vector<std::uint16_t> number(g.vertices.size(), unseen);
  for (std::size_t m = 0; m < gpus.size(); ++m) {
    std::uint16_t& of = number[sets.find(gpus[m])];
    if (of == unseen) of = level.count++;
    level.of_member[m] = of;
  }
  return level;
}

}  // namespace

const char* name_of(island_kind kind) {
  constexpr std::array names = {"GPU", "NVLink group", "switch", "root complex", "NUMA node", "socket", "node"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::vector<std::uint16_t>> island_level::members() const {
  std::vector<std::vector<std::uint16_t>> lists(count);
  for (std::size_t m = 0; m < of_member.size(); ++m) lists[of_member[m]].push_back(static_cast<std::uint16_t>(m));
  return lists;
}

bool island_level::regular() const {
  if (count < 2 || of_member.size() % count != 0 || of_member.size() == count) return false;
  std::vector<std::size_t> sizes(count, 0);
  for (std::uint16_t i : of_member) ++sizes[i];
  return std::all_of(sizes.begin(), sizes.end(), [&](std::size_t s) { return s == sizes[0]; });
}

std::vector<island_level> find_islands(const graph& g, std::span<const vertex_id> gpus) {
  std::vector<island_level> levels;
  for (int kind = 0; kind < static_cast<int>(island_kind::node); ++kind) {
    island_level level = level_of(g, gpus, static_cast<island_kind>(kind));
    const bool says_nothing = level.count <= 1 || level.count == gpus.size();
    const bool known = !levels.empty() && levels.back().of_member == level.of_member;
    if (!says_nothing && !known) levels.push_back(std::move(level));
  }
  levels.push_back(level_of(g, gpus, island_kind::node));
  return levels;
}

std::vector<std::uint16_t> switch_of_members(const graph& g, std::span<const vertex_id> gpus) {
  std::vector<std::uint16_t> of = level_of(g, gpus, island_kind::pci_switch).of_member;
  for (std::size_t m = 0; m < gpus.size(); ++m) {
    const bool below_switch = std::any_of(g.edges.begin(), g.edges.end(), [&](const edge& e) {
      return e.from == gpus[m] && g.vertices[e.to].kind == vertex_kind::pci_switch;
    });
    if (!below_switch) of[m] = no_switch;
  }
  return of;
}

}  // namespace xyl::topo
