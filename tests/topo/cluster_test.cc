// SPDX-License-Identifier: BSD-3-Clause
#include "topo/cluster.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "topo/built_machines.hpp"

namespace xyl::topo::test {
namespace {

cluster_plan cluster_of(const graph& g, unsigned nodes, pattern what, network between = {}) {
  cluster_request request;
  request.nodes = nodes;
  request.between = between;
  request.node = one_rank_per_gpu(g);
  request.what = what;
  cluster_plan p;
  const result made = plan_cluster(g, request, p);
  EXPECT_TRUE(made.ok()) << made.text();
  return p;
}

const cluster_candidate& named(const cluster_plan& p, const std::string& part) {
  const auto at = std::find_if(p.candidates.begin(), p.candidates.end(),
                               [&](const cluster_candidate& c) { return c.name.find(part) != std::string::npos; });
  EXPECT_NE(at, p.candidates.end()) << part;
  return *at;
}

const cluster_phase& phase_named(const cluster_candidate& c, const std::string& name) {
  const auto at =
      std::find_if(c.phases.begin(), c.phases.end(), [&](const cluster_phase& p) { return p.name == name; });
  EXPECT_NE(at, c.phases.end()) << name;
  return *at;
}

TEST(cluster, ring_visits_every_gpu_once_and_enters_each_node_once) {
  const cluster_plan p = cluster_of(switched({2, 2}, {0, 1}), 5, pattern::all_reduce);
  std::vector<std::uint32_t> sorted = p.ring;
  std::sort(sorted.begin(), sorted.end());
  ASSERT_EQ(sorted.size(), 20u);
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_EQ(sorted[i], i);
  unsigned crossings = 0;
  for (std::size_t i = 0; i < 20; ++i) crossings += p.ring[i] / 4 != p.ring[(i + 1) % 20] / 4;
  EXPECT_EQ(crossings, 5u);
}

TEST(cluster, network_loads_equal_the_formulas) {
  const network net{40, 2, 0.5};
  const double m = 6, n = 24;
  const graph g = switched({2, 2}, {0, 1});
  const cluster_plan p = cluster_of(g, 6, pattern::all_reduce, net);
  EXPECT_NEAR(named(p, "ring over all GPUs").cost.ns_per_byte, 2 * (n - 1) / n / 40, 1e-9);
  EXPECT_NEAR(phase_named(named(p, "ring by rail"), "ring by rail").cost.ns_per_byte, 2 * (m - 1) / m / 40, 1e-9);
  EXPECT_NEAR(phase_named(named(p, "ring by rail"), "ring by rail").cost.fixed_us, 2 * 5 * 2.2, 1e-9);
  EXPECT_NEAR(phase_named(named(p, "all to all by rail"), "all to all by rail").cost.fixed_us, 2 * (2.2 + 4 * 0.5),
              1e-9);
  // Both trees: everyone passes at most two messages on, up and down together.
  const double tree = phase_named(named(p, "tree by rail"), "double binary tree by rail").cost.ns_per_byte * 40;
  EXPECT_GE(tree, 1.5);
  EXPECT_LE(tree, 2 * 1.5);
  const cluster_plan a = cluster_of(g, 6, pattern::all_to_all, net);
  // Four GPUs' messages, of which one sixth stays.
  EXPECT_NEAR(phase_named(a.candidates[0], "all to all by rail").cost.ns_per_byte, 4 * (m - 1) / m / 40, 1e-9);
}

TEST(cluster, trees_win_small_messages_on_many_nodes_and_rings_large_ones) {
  const cluster_plan p = cluster_of(switched({4, 4}, {0, 1}), 256, pattern::all_reduce);
  EXPECT_NE(p.winner(1 << 20).name.find("tree"), std::string::npos) << p.winner(1 << 20).name;
  EXPECT_NE(p.winner(16ull << 30).name.find("ring"), std::string::npos) << p.winner(16ull << 30).name;
}

TEST(cluster, time_rises_with_nodes_and_falls_with_a_faster_network) {
  const graph g = switched({4, 4}, {0, 1});
  for (pattern what : {pattern::all_reduce, pattern::all_gather, pattern::reduce_scatter, pattern::broadcast,
                       pattern::all_to_all}) {
    double before = 0;
    for (unsigned nodes : {1u, 2u, 8u, 64u, 512u}) {
      const double us = cluster_of(g, nodes, what).winner(64 << 20).cost.us(64 << 20);
      EXPECT_GE(us, before) << name_of(what) << " on " << nodes;
      before = us;
    }
    EXPECT_LT(cluster_of(g, 64, what, {400, 2, 0.3}).winner(1 << 30).cost.us(1 << 30),
              cluster_of(g, 64, what, {50, 2, 0.3}).winner(1 << 30).cost.us(1 << 30));
  }
}

TEST(cluster, what_is_no_cluster_is_refused) {
  const graph g = one_switch(2);
  cluster_request request;
  request.node = one_rank_per_gpu(g);
  cluster_plan p;
  for (unsigned nodes : {0u, 4097u}) {
    request.nodes = nodes;
    EXPECT_EQ(plan_cluster(g, request, p).code(), xylInvalidArgument);
  }
  request.nodes = 2;
  for (double capacity : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    request.between.capacity = capacity;
    EXPECT_EQ(plan_cluster(g, request, p).code(), xylInvalidArgument);
  }
  request.between.capacity = 50;
  request.node.gpu_of_rank.clear();
  EXPECT_EQ(plan_cluster(g, request, p).code(), xylInvalidArgument);
}

// The real limits, 0.5 s and 500 MB, are measured by hand; these are generous ones.
TEST(cluster, the_largest_is_planned_in_bounded_time_and_memory) {
  const graph g = switched({4, 4}, {0, 1});
  const auto begin = std::chrono::steady_clock::now();
  const cluster_plan p = cluster_of(g, most_nodes, pattern::all_reduce);
  EXPECT_EQ(p.ring.size(), 8u * most_nodes);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  rusage used;
  ASSERT_EQ(getrusage(RUSAGE_SELF, &used), 0);
  EXPECT_LT(used.ru_maxrss, 500 * 1024);
}

}  // namespace
}  // namespace xyl::topo::test
