// SPDX-License-Identifier: BSD-3-Clause
#include "topo/host_plan.hpp"

#include <gtest/gtest.h>

#include "topo/plan_table.hpp"

namespace xyl::topo::test {
namespace {

TEST(host_plan, a_ring_visits_each_numa_node_once) {
  const int numa[] = {1, 0, 1, 0, 2};
  plan p;
  ASSERT_TRUE(make_host_plan(numa, nullptr, p).ok());
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
  ASSERT_TRUE(make_host_plan(numa, nullptr, p).ok());
  EXPECT_EQ(p.rings, (std::vector<std::vector<int>>{{0, 1, 2}}));
  EXPECT_EQ(p.notes.size(), 1u);
  const int one_node[] = {0, 0};
  ASSERT_TRUE(make_host_plan(one_node, nullptr, p).ok());
  EXPECT_EQ(p.islands.size(), 1u);
  EXPECT_TRUE(p.notes.empty());
}

TEST(host_plan, prescribed_rings_are_followed_or_refused) {
  const int numa[] = {0, 0, 0};
  plan_override prescribed;
  prescribed.rings = {{2, 0, 1}};
  plan p;
  ASSERT_TRUE(make_host_plan(numa, &prescribed, p).ok());
  EXPECT_EQ(p.rings, prescribed.rings);
  prescribed.rings = {{2, 0, 0}};
  const result refused = make_host_plan(numa, &prescribed, p);
  EXPECT_EQ(refused.code(), xylInvalidUsage);
  EXPECT_EQ(p.rings[0].size(), 3u);
}

}  // namespace
}  // namespace xyl::topo::test
