// SPDX-License-Identifier: BSD-3-Clause
#include "topo/host_plan.hpp"

#include <algorithm>
#include <numeric>

#include "topo/choosing.hpp"

namespace xyl::topo {

result make_host_plan(const host_ranks& ranks, const plan_request& request, plan& out) {
  const std::span<const int> numa_of_rank = ranks.numa_of_rank;
  const plan_override* const prescribed = request.override_with ? &*request.override_with : nullptr;
  plan p;
  std::vector<int> order(numa_of_rank.size());
  std::iota(order.begin(), order.end(), 0);
  const auto numa = [&](int rank) { return numa_of_rank[static_cast<std::size_t>(rank)]; };
  const bool all_known = std::find(numa_of_rank.begin(), numa_of_rank.end(), -1) == numa_of_rank.end();
  if (all_known)
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return numa(a) < numa(b); });
  else
    p.notes.push_back("Not every rank is bound to one NUMA node: rings go in rank order.");
  if (prescribed != nullptr) XYL_TRY(check_override(*prescribed, order.size()));

  p.places.resize(order.size());
  p.rings = {order};
  if (prescribed != nullptr && !prescribed->rings.empty()) p.rings = prescribed->rings;
  if (all_known && !order.empty() && numa(order.front()) != numa(order.back())) {
    island_set nodes{island_kind::numa_node, {}};
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || numa(order[i]) != numa(order[i - 1])) nodes.ranks.emplace_back();
      nodes.ranks.back().push_back(order[i]);
    }
    p.islands.push_back(std::move(nodes));
  }
  p.islands.push_back({island_kind::node, {order}});
  for (std::size_t i = 0; order.size() > 1 && i < order.size(); ++i) {
    const auto from = static_cast<std::size_t>(p.rings[0][i]);
    const auto to = static_cast<std::size_t>(p.rings[0][(i + 1) % order.size()]);
    const double rate = route_between(ranks, from, to).write.value;
    p.ring_rate = i == 0 ? rate : std::min(p.ring_rate, rate);
  }
  for (pattern what : request.what) {
    collective_plan c{what, host_candidates(ranks, what, p.rings[0]), {}, ""};
    if (c.candidates.empty()) continue;
    choose_by_size(request, c, p.notes);
    p.collectives.push_back(std::move(c));
  }
  if (!p.collectives.empty() && (ranks.probe == nullptr || !ranks.probe->on_host))
    p.notes.push_back(
        "Ways between ranks were not measured; predicted times are of a processor of the usual kind.");
  out = std::move(p);
  return {};
}

}  // namespace xyl::topo
