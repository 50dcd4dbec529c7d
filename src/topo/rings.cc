// SPDX-License-Identifier: BSD-3-Clause
#include "topo/rings.hpp"

#include <algorithm>
#include <set>

#include "topo/loads.hpp"
#include "topo/machine_tree.hpp"

namespace xyl::topo {
namespace {

using tour = std::vector<std::uint16_t>;

// Lower is better: time, then the flags' way around, then the order itself, so that the choice depends on nothing
// else. Times that differ by rounding are equal.
struct tour_cost {
  double time;
  double flags_us;
  bool operator<(const tour_cost& other) const {
    const double slack = 1e-9 * std::max(time, other.time);
    if (time < other.time - slack || time > other.time + slack) return time < other.time;
    return flags_us < other.flags_us - 1e-9;
  }
};

// Both ways around, unless only one will be used.
std::vector<tour> with_reverse(const fabric& f, std::vector<tour> tours) {
  if (f.collapse_flagged || tours[0].size() < 3) return tours;
  const std::size_t forward = tours.size();
  for (std::size_t i = 0; i < forward; ++i) tours.emplace_back(tours[i].rbegin(), tours[i].rend());
  return tours;
}

tour_cost cost_of(const fabric& f, const tour& order) {
  tour_cost cost{tour_time(f, with_reverse(f, {order})), 0};
  for (std::size_t i = 0; i < order.size(); ++i)
    cost.flags_us += f.between(order[i], order[(i + 1) % order.size()]).flag_us;
  return cost;
}

// No tours are faster than all links of the worst connected GPU, or all into it, together.
double least_time(const fabric& f) {
  double bound = 0;
  const auto count = static_cast<std::uint16_t>(f.gpus.size());
  for (std::uint16_t a = 0; a < count; ++a) {
    std::set<std::uint32_t> out, in;
    for (std::uint16_t b = 0; b < count; ++b) {
      if (a == b || f.between(a, b).edges.empty() || f.between(b, a).edges.empty()) continue;
      out.insert(f.between(a, b).edges.front());
      in.insert(f.between(b, a).edges.back());
    }
    for (const auto& edges : {out, in}) {
      double sum = 0;
      for (std::uint32_t e : edges) sum += f.write[e];
      if (sum > 0) bound = std::max(bound, 1 / sum);
    }
  }
  return bound;
}

// Seven branches, or eight GPUs of which the first stays, have 5040 orders.
constexpr std::size_t most_permuted = 7;

void permute_branches(const fabric& f, machine_tree& tree, tour& best, tour_cost& cost) {
  for (std::uint32_t block : tree.open_blocks()) {
    std::vector<std::uint32_t>& branches = tree.branches(block);
    if (branches.size() > most_permuted) continue;
    std::vector<std::uint32_t> best_branches = branches;
    // Permutations of positions, so that the order tried does not depend on how blocks are numbered.
    const std::vector<std::uint32_t> given = branches;
    std::vector<std::size_t> at(branches.size());
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = i;
    while (std::next_permutation(at.begin(), at.end())) {
      for (std::size_t i = 0; i < at.size(); ++i) branches[i] = given[at[i]];
      tour order = tree.depth_first_order();
      const tour_cost tried = cost_of(f, order);
      if (!(tried < cost)) continue;
      cost = tried;
      best = std::move(order);
      best_branches = branches;
    }
    branches = best_branches;
  }
}

// Partial NVLink meshes: the tour may have to leave the tree's order to find links.
void search_orders(const fabric& f, tour& best, tour_cost& cost) {
  if (best.size() <= most_permuted + 1) {
    tour order(best.size());
    for (std::uint16_t i = 0; i < order.size(); ++i) order[i] = i;
    do {
      // Both ways around is the same whichever comes first.
      if (!f.collapse_flagged && order[1] > order.back()) continue;
      const tour_cost tried = cost_of(f, order);
      if (tried < cost) {
        cost = tried;
        best = order;
      }
    } while (std::next_permutation(order.begin() + 1, order.end()));
    return;
  }
  // Turn a part of the tour around while that helps.
  for (bool improved = true; improved;) {
    improved = false;
    for (std::size_t i = 1; i + 1 < best.size(); ++i)
      for (std::size_t j = i + 1; j < best.size(); ++j) {
        tour order = best;
        std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i),
                     order.begin() + static_cast<std::ptrdiff_t>(j) + 1);
        const tour_cost tried = cost_of(f, order);
        if (!(tried < cost)) continue;
        cost = tried;
        best = std::move(order);
        improved = true;
      }
  }
}

// The switch right above each GPU; no_vertex where there is none. GPUs of one such switch that follow each other in
// a tour may change places without loading any edge but their own differently.
std::vector<vertex_id> switches_above(const fabric& f) {
  std::vector<vertex_id> above(f.gpus.size(), no_vertex);
  for (const edge& e : f.machine->edges) {
    const auto at = std::find(f.gpus.begin(), f.gpus.end(), e.from);
    if (at != f.gpus.end() && f.machine->vertices[e.to].kind == vertex_kind::pci_switch)
      above[static_cast<std::size_t>(at - f.gpus.begin())] = e.to;
  }
  return above;
}

// A closed tour may begin anywhere; here where a switch's run does.
void begin_at_run(const std::vector<vertex_id>& above, tour& order) {
  const std::size_t size = order.size();
  for (std::size_t i = 0; i < size; ++i) {
    const vertex_id of = above[order[i]], before = above[order[(i + size - 1) % size]];
    if (of != no_vertex && of == before) continue;
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(i), order.end());
    return;
  }
}

struct run {
  std::size_t begin, end;
};

std::vector<run> runs_of(const std::vector<vertex_id>& above, const tour& order) {
  std::vector<run> runs;
  for (std::size_t begin = 0; begin < order.size(); begin = runs.back().end) {
    std::size_t end = begin + 1;
    while (end < order.size() && above[order[begin]] != no_vertex && above[order[end]] == above[order[begin]])
      ++end;
    runs.push_back({begin, end});
  }
  return runs;
}

// Tours that differ in which GPU of each switch crosses its uplink. One switch over everything has one: rotating it
// is the same ring.
std::vector<tour> rotations(const fabric& f, tour order) {
  const std::vector<vertex_id> above = switches_above(f);
  begin_at_run(above, order);
  const std::vector<run> runs = runs_of(above, order);
  std::size_t longest = 1;
  for (const run& r : runs) longest = runs.size() == 1 ? 1 : std::max(longest, r.end - r.begin);
  std::vector<tour> tours;
  for (std::size_t by = 0; by < std::min(longest, most_rings / 2); ++by) {
    tour turned = order;
    const auto at = [&](std::size_t i) { return turned.begin() + static_cast<std::ptrdiff_t>(i); };
    for (const run& r : runs) std::rotate(at(r.begin), at(r.begin + by % (r.end - r.begin)), at(r.end));
    tours.push_back(std::move(turned));
  }
  return tours;
}

}  // namespace

double tour_time(const fabric& f, const std::vector<tour>& gpu_orders) {
  load_table loads(f);
  for (const tour& order : gpu_orders)
    for (std::size_t i = 0; i < order.size() && order.size() > 1; ++i)
      loads.add(f, order[i], order[(i + 1) % order.size()], 1.0 / static_cast<double>(gpu_orders.size()),
                direction::push);
  return loads.time_per_byte(f, false);
}

ring_set make_rings(const fabric& f) {
  machine_tree tree(*f.machine, f.gpus);
  tour best = tree.depth_first_order();
  tour_cost cost = cost_of(f, best);
  const bool nvlink =
      std::any_of(f.routes.begin(), f.routes.end(), [](const route& r) { return r.what == path_class::nv; });
  if (best.size() > 3) {
    permute_branches(f, tree, best, cost);
    if (nvlink && cost.time > least_time(f) * (1 + 1e-9)) search_orders(f, best, cost);
  }
  // Over NVLink no uplink is crossed.
  std::vector<tour> tours = nvlink ? std::vector<tour>{best} : rotations(f, best);
  tours = with_reverse(f, std::move(tours));

  ring_set rings;
  const double time = tour_time(f, tours);
  rings.rate = time > 0 ? 1 / time : 0;
  for (const tour& order : tours) {
    std::vector<std::uint16_t> members;
    for (std::uint16_t gpu : order)
      for (std::uint16_t m = 0; m < f.members(); ++m)
        if (f.gpu_of_member[m] == gpu) members.push_back(m);
    rings.orders.push_back(std::move(members));
  }
  return rings;
}

}  // namespace xyl::topo
