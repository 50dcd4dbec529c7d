// SPDX-License-Identifier: BSD-3-Clause
#include "topo/host_plan.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "topo/describe.hpp"
#include "topo/plan_table.hpp"

namespace xyl::topo::test {
namespace {

result plan_for(std::span<const int> numa, const plan_override* prescribed, plan& p) {
  plan_request request;
  if (prescribed != nullptr) request.override_with = *prescribed;
  return make_host_plan({.numa_of_rank = numa}, request, p);
}

TEST(host_plan, a_ring_visits_each_numa_node_once) {
  const int numa[] = {1, 0, 1, 0, 2};
  plan p;
  ASSERT_TRUE(plan_for(numa, nullptr, p).ok());
  EXPECT_EQ(p.rings, (std::vector<std::vector<int>>{{1, 3, 0, 2, 4}}));
  ASSERT_EQ(p.islands.size(), 2u);
  EXPECT_EQ(p.islands[0].kind, island_kind::numa_node);
  EXPECT_EQ(p.islands[0].ranks, (std::vector<std::vector<int>>{{1, 3}, {0, 2}, {4}}));
  plan_table table;
  ASSERT_TRUE(make_table(p, table).ok());
  EXPECT_TRUE(table.plausible(5));
}

TEST(host_plan, ranks_that_float_go_in_rank_order_and_a_note_says_so) {
  const int numa[] = {1, 0, -1};
  plan p;
  ASSERT_TRUE(plan_for(numa, nullptr, p).ok());
  EXPECT_EQ(p.rings, (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(p.notes.size(), 2u);
  const int one_node[] = {0, 0};
  ASSERT_TRUE(plan_for(one_node, nullptr, p).ok());
  EXPECT_EQ(p.islands.size(), 1u);
  ASSERT_EQ(p.notes.size(), 1u);
  EXPECT_NE(p.notes[0].find("not measured"), std::string::npos);
}

TEST(host_plan, prescribed_rings_are_followed_or_refused) {
  const int numa[] = {0, 0, 0};
  plan_override prescribed;
  prescribed.rings = {{2, 0, 1}};
  plan p;
  ASSERT_TRUE(plan_for(numa, &prescribed, p).ok());
  EXPECT_EQ(p.rings, prescribed.rings);
  prescribed.rings = {{2, 0, 0}};
  const result refused = plan_for(numa, &prescribed, p);
  EXPECT_EQ(refused.code(), xylInvalidUsage);
  EXPECT_EQ(p.rings[0].size(), 3u);
}

TEST(host_plan, every_collective_is_priced_and_what_hosts_do_is_considered) {
  const int numa[] = {0, 0, 1, 1};
  plan p;
  ASSERT_TRUE(plan_for(numa, nullptr, p).ok());
  ASSERT_EQ(p.collectives.size(), static_cast<std::size_t>(patterns));
  std::set<std::string> names;
  for (const candidate& c : p.find(pattern::all_reduce)->candidates) names.insert(name_of(c));
  EXPECT_EQ(names, (std::set<std::string>{"packet", "oneshot", "twoshot", "ring", "twoshotpacket", "oneshot, pull",
                                          "twoshot, pull"}));
  for (const collective_plan& c : p.collectives) {
    ASSERT_FALSE(c.ranges.empty()) << name_of(c.what);
    for (const candidate& x : c.candidates) {
      double fixed = 0, slope = 0;
      for (const phase_cost& phase : x.phases) {
        fixed += phase.cost.fixed_us;
        slope += phase.cost.ns_per_byte;
      }
      EXPECT_GT(slope, 0) << name_of(x);
      EXPECT_GE(x.cost.fixed_us, fixed) << name_of(x);
      EXPECT_NEAR(x.cost.ns_per_byte, slope, 1e-9) << name_of(x);
      EXPECT_FALSE(x.phases[0].bottleneck.empty());
    }
  }
  const auto has_single_copy = [&](pattern what) {
    const auto& all = p.find(what)->candidates;
    return std::any_of(all.begin(), all.end(), [](const candidate& c) { return c.how == method::single_copy; });
  };
  EXPECT_TRUE(has_single_copy(pattern::broadcast));
  EXPECT_FALSE(has_single_copy(pattern::reduce_scatter));
  const json text = describe(p);
  EXPECT_EQ(text["considered"]["allreduce"].size(), names.size());
  EXPECT_GT(text["considered"]["allreduce"][0]["predicted_us"]["1M"].get<double>(), 0);
}

TEST(host_plan, one_rank_has_nothing_to_be_priced) {
  const int numa[] = {0};
  plan p;
  ASSERT_TRUE(plan_for(numa, nullptr, p).ok());
  EXPECT_TRUE(p.collectives.empty());
}

TEST(host_plan, what_is_forced_wins_and_the_plan_says_by_what) {
  const int numa[] = {0, 0};
  plan_request request;
  request.forced = method::ring;
  plan p;
  ASSERT_TRUE(make_host_plan({.numa_of_rank = numa}, request, p).ok());
  const collective_plan& c = *p.find(pattern::all_reduce);
  for (std::uint64_t bytes : {8ull, 1ull << 20}) EXPECT_EQ(c.winner(bytes).how, method::ring);
  EXPECT_EQ(c.reason, "XYLEM_ALGO=ring");
}

}  // namespace
}  // namespace xyl::topo::test
