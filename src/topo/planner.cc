// SPDX-License-Identifier: BSD-3-Clause
#include "topo/planner.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "topo/choosing.hpp"
#include "topo/fabric.hpp"
#include "topo/rings.hpp"
#include "topo/schedule.hpp"
#include "topo/trees.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

candidate price(const fabric& f, const schedule& s) {
  candidate c{.how = s.how,
              .inside = s.inside,
              .across = s.across,
              .staged = s.staged,
              .by_ring = s.by_ring,
              .level = s.level,
              .cost = {f.constants.launch_us, 0},
              .phases = {}};
  for (const phase& p : s.phases) {
    const load_table loads = loads_of(f, p);
    const line cost = cost_of_phase(f, p, loads);
    c.cost.fixed_us += cost.fixed_us;
    c.cost.ns_per_byte += cost.ns_per_byte;
    c.phases.push_back({p.name, p.how, p.rounds, cost, loads.bottleneck(f), loads.most_targets(), loads.loads()});
  }
  return c;
}

void prescribe_rings(const fabric& f, const plan_override& o, ring_set& rings) {
  if (o.rings.empty()) return;
  std::vector<std::uint16_t> member_of_rank(f.members());
  for (std::uint16_t m = 0; m < f.members(); ++m) member_of_rank[static_cast<std::size_t>(f.rank_of_member[m])] = m;
  rings.orders.clear();
  for (const auto& ring : o.rings) {
    rings.orders.emplace_back();
    for (int rank : ring) rings.orders.back().push_back(member_of_rank[static_cast<std::size_t>(rank)]);
  }
  rings.rate = 0;
}

std::string text_of(const pci_address& a) {
  return format_text("%04x:%02x:%02x.%x", a.domain, a.bus, a.device, a.function);
}

void describe_order(const fabric& f, const ring_set& rings, const std::vector<island_level>& levels, plan& p) {
  const graph& g = *f.machine;
  const auto rank = [&](std::uint16_t m) { return f.rank_of_member[m]; };
  p.places.resize(f.members());
  for (std::uint16_t m = 0; m < f.members(); ++m) {
    const vertex& v = g.vertices[f.gpus[f.gpu_of_member[m]]];
    p.places[static_cast<std::size_t>(rank(m))] = {v.name, v.pci ? text_of(*v.pci) : ""};
  }
  for (const auto& order : rings.orders) {
    p.rings.emplace_back();
    for (std::uint16_t m : order) p.rings.back().push_back(rank(m));
  }
  p.ring_rate = rings.rate;
  for (const tree_parents& tree : trees_along(f, rings.orders[0])) {
    std::vector<int> parents(f.members(), -1);
    for (std::uint16_t i = 0; i < f.members(); ++i)
      if (tree[i] != no_parent)
        parents[static_cast<std::size_t>(rank(rings.orders[0][i]))] = rank(rings.orders[0][tree[i]]);
    p.trees.push_back(std::move(parents));
  }
  for (const island_level& level : levels) {
    island_set set{level.kind, {}};
    std::vector<std::size_t> place(level.count, level.count);
    for (std::uint16_t m : rings.orders[0]) {
      std::size_t& at = place[level.of_member[m]];
      if (at == level.count) {
        at = set.ranks.size();
        set.ranks.emplace_back();
      }
      set.ranks[at].push_back(rank(m));
    }
    p.islands.push_back(std::move(set));
  }
}

void describe_staging(const fabric& f, plan& p) {
  p.host_staged = f.any_staged();
  if (!p.host_staged) return;
  for (std::uint16_t m = 0; m < f.members(); ++m)
    for (std::uint16_t from = 0; from < f.gpus.size(); ++from) {
      const route& r = f.between(from, f.gpu_of_member[m]);
      if (!r.staged()) continue;
      bounce b{f.rank_of_member[m], "", -1};
      if (r.memory != no_vertex) {
        const vertex& v = f.machine->vertices[r.memory];
        b.memory = v.name;
        if (v.os_index) b.numa_node = static_cast<int>(*v.os_index);
      }
      p.bounces.push_back(std::move(b));
      break;
    }
  std::sort(p.bounces.begin(), p.bounces.end(), [](const bounce& a, const bounce& b) { return a.rank < b.rank; });
}

}  // namespace

result check_override(const plan_override& o, std::size_t ranks) {
  for (const auto& ring : o.rings) {
    const std::set<int> distinct(ring.begin(), ring.end());
    if (ring.size() != ranks || distinct.size() != ranks || *distinct.begin() != 0 ||
        *distinct.rbegin() != static_cast<int>(ranks) - 1)
      return error(xylInvalidUsage, "a ring of the plan file does not name each of the ranks 0 to %zu once",
                   ranks - 1);
  }
  if (o.rings.size() > most_rings)
    return error(xylInvalidUsage, "the plan file has %zu rings; at most %zu are possible", o.rings.size(),
                 most_rings);
  for (const auto& [what, ranges] : o.thresholds) {
    bool rising = !ranges.empty() && ranges.back().up_to_bytes == largest;
    for (std::size_t i = 1; i < ranges.size(); ++i)
      rising = rising && ranges[i - 1].up_to_bytes < ranges[i].up_to_bytes;
    if (!rising)
      return error(xylInvalidUsage, "the thresholds of %s in the plan file do not rise, or do not cover all sizes",
                   name_of(what));
  }
  return {};
}

plan_request one_rank_per_gpu(const graph& g) {
  plan_request request;
  request.gpu_of_rank = g.gpus();
  return request;
}

result make_plan(const graph& g, const plan_request& request, plan& out) {
  fabric f;
  XYL_TRY(make_fabric(g, request.gpu_of_rank, request.constants, request.host_staged, f));
  if (request.root && (*request.root < 0 || *request.root >= f.members()))
    return error(xylInvalidArgument, "the root of a broadcast is rank %d; there are %u ranks", *request.root,
                 static_cast<unsigned>(f.members()));
  plan p;
  p.notes = f.notes;
  ring_set rings = make_rings(f);
  if (request.override_with) {
    XYL_TRY(check_override(*request.override_with, f.members()));
    prescribe_rings(f, *request.override_with, rings);
  }
  std::vector<vertex_id> gpu_of_member;
  for (std::uint16_t gpu : f.gpu_of_member) gpu_of_member.push_back(f.gpus[gpu]);
  const std::vector<island_level> levels = find_islands(g, gpu_of_member);
  std::uint16_t root = 0;
  for (std::uint16_t m = 0; m < f.members(); ++m)
    if (request.root && f.rank_of_member[m] == *request.root) root = m;

  describe_order(f, rings, levels, p);
  describe_staging(f, p);
  p.collapse_flagged = f.collapse_flagged;
  if (p.host_staged)
    p.notes.push_back("some GPUs cannot reach each other's memory; they are staged through the host");
  for (pattern what : request.what) {
    collective_plan c{what, {}, {}, ""};
    for (const schedule& s : schedules_for(f, what, rings, levels, root)) c.candidates.push_back(price(f, s));
    choose_by_size(request, c, p.notes);
    p.collectives.push_back(std::move(c));
  }
  out = std::move(p);
  return {};
}

}  // namespace xyl::topo
