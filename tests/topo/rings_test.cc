// SPDX-License-Identifier: BSD-3-Clause
// Rings against all orders there are, where there are few enough GPUs to try them.
#include "topo/rings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "topo/built_machines.hpp"
#include "topo/fabric.hpp"

namespace xyl::topo::test {
namespace {

fabric fabric_of(const graph&& g) = delete;  // it keeps a pointer

fabric fabric_of(const graph& g) {
  fabric f;
  const std::vector<vertex_id> gpus = g.gpus();
  EXPECT_TRUE(make_fabric(g, gpus, {}, false, f).ok());
  return f;
}

double best_of_all_orders(const fabric& f, bool both_ways) {
  std::vector<std::uint16_t> order(f.gpus.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  double best = std::numeric_limits<double>::infinity();
  do {
    std::vector<std::vector<std::uint16_t>> tours{order};
    if (both_ways) tours.emplace_back(order.rbegin(), order.rend());
    best = std::min(best, tour_time(f, tours));
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return 1 / best;
}

TEST(rings, are_as_fast_as_the_best_order_on_trees) {
  for (unsigned gpus = 2; gpus <= 7; ++gpus)
    for (unsigned seed = 0; seed < 8; ++seed) {
      const graph g = random_tree(gpus, 100 * gpus + seed);
      const fabric f = fabric_of(g);
      EXPECT_GE(make_rings(f).rate, best_of_all_orders(f, false) * (1 - 1e-9)) << gpus << " GPUs, seed " << seed;
    }
}

TEST(rings, are_as_fast_as_the_best_order_on_meshes) {
  const graph four = four_sockets(), mesh = cube_mesh();
  const fabric sockets = fabric_of(four);
  EXPECT_GE(make_rings(sockets).rate, best_of_all_orders(sockets, true) * (1 - 1e-9));
  const fabric cube = fabric_of(mesh);
  EXPECT_GE(make_rings(cube).rate, best_of_all_orders(cube, true) * (1 - 1e-9));
}

TEST(rings, interleaved_orders_are_slower) {
  const graph g = switched({4, 4}, {0, 0});
  const fabric f = fabric_of(g);
  EXPECT_NEAR(make_rings(f).rate, 4 / tour_time(f, {{0, 4, 1, 5, 2, 6, 3, 7}}), 1e-6);
}

TEST(rings, of_interleaved_addresses_keep_switches_together) {
  // GPUs of two switches in turn: addresses alternate.
  machine_builder b;
  const vertex_id numa = b.numa(0, no_vertex);
  const vertex_id left = b.pci_switch(b.root_complex(numa)), right = b.pci_switch(b.root_complex(numa));
  for (int i = 0; i < 4; ++i) b.gpu(i % 2 == 0 ? left : right);
  const fabric f = fabric_of(b.g);
  const ring_set rings = make_rings(f);
  for (const auto& order : rings.orders) {
    unsigned changes = 0;
    for (std::size_t i = 0; i < order.size(); ++i)
      changes += f.switch_of_gpu[order[i]] != f.switch_of_gpu[order[(i + 1) % order.size()]];
    EXPECT_EQ(changes, 2u);
  }
}

TEST(rings, rotate_the_gpus_that_cross_an_uplink) {
  const graph g = switched({4, 4}, {0, 0});
  const fabric f = fabric_of(g);
  const ring_set rings = make_rings(f);
  std::vector<std::uint16_t> crossing;
  for (const auto& order : rings.orders)
    for (std::size_t i = 0; i < order.size(); ++i)
      if (f.switch_of_gpu[order[i]] == 0 && f.switch_of_gpu[order[(i + 1) % order.size()]] == 1)
        crossing.push_back(order[i]);
  std::sort(crossing.begin(), crossing.end());
  crossing.erase(std::unique(crossing.begin(), crossing.end()), crossing.end());
  EXPECT_EQ(crossing, (std::vector<std::uint16_t>{0, 1, 2, 3}));
}

TEST(rings, run_one_way_where_writes_collapse) {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1});
  const auto targets = [&](const fabric& f, const ring_set& rings) {
    std::size_t most = 0;
    for (std::uint16_t s = 0; s < 4; ++s) {
      std::vector<vertex_id> of;
      for (const auto& order : rings.orders)
        for (std::size_t i = 0; i < order.size(); ++i) {
          const route& r = f.between(order[i], order[(i + 1) % order.size()]);
          if (f.switch_of_gpu[order[i]] == s && r.target != no_vertex) of.push_back(r.target);
        }
      std::sort(of.begin(), of.end());
      most = std::max<std::size_t>(most, static_cast<std::size_t>(std::unique(of.begin(), of.end()) - of.begin()));
    }
    return most;
  };
  const fabric healthy = fabric_of(g);
  EXPECT_EQ(targets(healthy, make_rings(healthy)), 2u);
  g.write_collapse = measured(0.05);
  const fabric collapsing = fabric_of(g);
  EXPECT_EQ(targets(collapsing, make_rings(collapsing)), 1u);
}

}  // namespace
}  // namespace xyl::topo::test
