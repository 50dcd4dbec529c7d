// SPDX-License-Identifier: BSD-3-Clause
// What a probe measures, in which order.
#include "topo/probe_order.hpp"

#include <gtest/gtest.h>

#include <set>

#include "topo/built_machines.hpp"
#include "topo/made_probe.hpp"

namespace xyl::topo::test {
namespace {

graph two_switches() { return switched({4, 4}, {0, 1}); }

TEST(probe_order, measures_every_pair_of_eight_gpus_within_its_budget) {
  const made_probe m(two_switches());
  const probe_order order = order_probe(m.input());
  ASSERT_TRUE(order.plausible(8));
  EXPECT_EQ(order.pairs, 56u);
  EXPECT_EQ(order.around_count, 8u);
  EXPECT_LE(expected_us(order), probe_budget_us);
  std::set<std::pair<int, int>> pushed, pulled, flagged;
  for (const probe_step& s : steps_of(order)) {
    std::set<int> acting;
    for (const probe_pair& p : s.active) {
      EXPECT_TRUE(acting.insert(p.from).second) << name_of(s.purpose) << ": nobody acts twice";
      if (s.purpose != probe_purpose::alone) continue;
      EXPECT_EQ(s.active.size(), 1u);
      if (s.kind == probe_kind::push) pushed.insert({p.from, p.to});
      if (s.kind == probe_kind::pull) pulled.insert({p.from, p.to});
      if (s.kind == probe_kind::flags) flagged.insert(std::minmax(p.from, p.to));
    }
  }
  EXPECT_EQ(pushed.size(), 56u);
  EXPECT_EQ(pulled.size(), 56u);
  EXPECT_EQ(flagged.size(), 28u);
}

TEST(probe_order, writes_are_looked_at_before_anything_is_measured) {
  const made_probe m(two_switches());
  const std::vector<probe_step> steps = steps_of(order_probe(m.input()));
  ASSERT_GT(steps.size(), 3u);
  EXPECT_EQ(steps[0].kind, probe_kind::write);
  EXPECT_EQ(steps[1].kind, probe_kind::verify);
  EXPECT_EQ(steps[2].kind, probe_kind::read);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(steps[s].peer_of(5), probe_step::everyone);
}

TEST(probe_order, of_many_gpus_one_pair_of_each_class_is_measured) {
  std::vector<unsigned> gpus(8, 4), sockets{0, 0, 0, 0, 1, 1, 1, 1};
  const made_probe m(switched(gpus, sockets));
  const probe_order order = order_probe(m.input());
  ASSERT_TRUE(order.plausible(32));
  EXPECT_LT(order.pairs, 20u);
  const path_finder finder(m.truth);
  std::set<std::string> classes, measured;
  for (vertex_id a : m.of_rank)
    for (vertex_id b : m.of_rank)
      if (a != b) classes.insert(name_of(finder.find(a, b)));
  for (std::uint32_t i = 0; i < order.pairs; ++i)
    measured.insert(name_of(finder.find(m.of_rank[order.alone[i].from], m.of_rank[order.alone[i].to])));
  EXPECT_EQ(measured, classes);
  EXPECT_LE(expected_us(order), 2 * probe_budget_us);
}

TEST(probe_order, ranks_that_share_a_gpu_act_once_and_are_a_pair) {
  made_probe m(one_switch(2));
  m.of_rank = {m.of_rank[0], m.of_rank[0], m.of_rank[1], m.of_rank[1], m.of_rank[0]};
  const probe_order order = order_probe(m.input());
  ASSERT_TRUE(order.plausible(5));
  EXPECT_EQ(order.around_count, 2u);
  const std::vector<probe_pair> alone(order.alone, order.alone + order.pairs);
  EXPECT_EQ(alone, (std::vector<probe_pair>{{0, 2}, {2, 0}, {0, 1}, {2, 3}}));
  // Two of each GPU are enough.
  EXPECT_EQ(std::vector<int>(order.acts, order.acts + 5), (std::vector<int>{1, 1, 1, 1, 0}));
}

TEST(probe_order, a_garbled_order_is_not_plausible) {
  const made_probe m(switched({2, 2, 2}, {0, 0, 1}));
  const probe_order good = order_probe(m.input());
  ASSERT_TRUE(good.plausible(6));
  EXPECT_FALSE(good.plausible(5));
  EXPECT_TRUE(good.has_fan);
  const auto garbled = [&](auto change) {
    probe_order bad = good;
    change(bad);
    return !bad.plausible(6);
  };
  EXPECT_TRUE(garbled([](probe_order& o) { o.run = 2; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.pairs = 1000; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.alone[3].to = 6; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.alone[3].to = o.alone[3].from; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.around_count = 7; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.around[1] = o.around[0]; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.around[1] = 200; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.fan[4] = 6; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.acts[1] = 2; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.acts[1] = 0; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.nodes = 17; }));
  EXPECT_TRUE(garbled([](probe_order& o) { o.alone_us = 1'000'000'000; }));
}

}  // namespace
}  // namespace xyl::topo::test
