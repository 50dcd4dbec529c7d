// SPDX-License-Identifier: BSD-3-Clause
#include "topo/host_plan.hpp"

#include <algorithm>
#include <numeric>

namespace xyl::topo {

result make_host_plan(std::span<const int> numa_of_rank, const plan_override* prescribed, plan& out) {
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
  out = std::move(p);
  return {};
}

}  // namespace xyl::topo
