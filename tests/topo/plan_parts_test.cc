// SPDX-License-Identifier: BSD-3-Clause
// The parts that plans are made of: trees, islands, the envelope of costs, believed capacities.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "topo/built_machines.hpp"
#include "topo/cost.hpp"
#include "topo/islands.hpp"
#include "topo/trees.hpp"

namespace xyl::topo::test {
namespace {

TEST(trees, have_one_root_and_logarithmic_depth) {
  for (std::uint32_t count = 1; count <= 300; ++count) {
    const tree_pair pair = double_binary_tree(count);
    for (const tree_parents* tree : {&pair.first, &pair.second}) {
      ASSERT_EQ(std::count(tree->begin(), tree->end(), no_parent), 1) << count;
      std::vector<unsigned> children(count, 0);
      for (std::uint32_t parent : *tree)
        if (parent != no_parent) {
          ASSERT_LE(++children.at(parent), 2u) << count;
        }
      EXPECT_LE(depth_of(*tree), std::ceil(std::log2(count + 1))) << count;
    }
  }
}

TEST(trees, nobody_is_inside_both) {
  for (std::uint32_t count = 2; count <= 300; ++count) {
    const tree_pair pair = double_binary_tree(count);
    std::vector<bool> inside(count, false);
    for (std::uint32_t parent : pair.first)
      if (parent != no_parent) inside[parent] = true;
    for (std::uint32_t parent : pair.second)
      if (parent != no_parent) {
        ASSERT_FALSE(inside[parent]) << parent << " of " << count;
      }
  }
}

TEST(trees, subtrees_are_contiguous) {
  const tree_parents tree = binary_tree(100);
  for (std::uint32_t root = 0; root < 100; ++root) {
    std::vector<std::uint32_t> below;
    for (std::uint32_t i = 0; i < 100; ++i)
      for (std::uint32_t at = i; at != no_parent; at = tree[at])
        if (at == root) below.push_back(i);
    EXPECT_EQ(below.back() - below.front() + 1, below.size()) << root;
  }
}

TEST(trees, can_be_turned_to_any_root) {
  for (std::uint32_t root = 0; root < 13; ++root) {
    tree_parents tree = binary_tree(13);
    root_at(tree, root);
    EXPECT_EQ(tree[root], no_parent);
    EXPECT_EQ(std::count(tree.begin(), tree.end(), no_parent), 1);
    EXPECT_LE(depth_of(tree), 6u);  // would not end on a cycle
  }
}

std::vector<island_kind> kinds_of(const graph& g) {
  std::vector<island_kind> kinds;
  const std::vector<vertex_id> gpus = g.gpus();
  for (const island_level& level : find_islands(g, gpus)) kinds.push_back(level.kind);
  return kinds;
}

TEST(islands, levels_that_say_nothing_new_are_left_out) {
  using enum island_kind;
  EXPECT_EQ(kinds_of(switched({2, 2, 2, 2}, {0, 0, 1, 1})), (std::vector{pci_switch, numa_node, node}));
  EXPECT_EQ(kinds_of(switched({4, 4}, {0, 1})), (std::vector{pci_switch, node}));
  EXPECT_EQ(kinds_of(direct_attached()), (std::vector{numa_node, node}));
  EXPECT_EQ(kinds_of(flat_virtual_machine(8)), (std::vector{node}));
  EXPECT_EQ(kinds_of(one_switch(8)), (std::vector{node}));
}

// NUMA nodes inside sockets: a level each.
TEST(islands, sockets_are_coarser_than_numa_nodes) {
  machine_builder b;
  const vertex_id sockets[] = {b.socket(0), b.socket(1)};
  b.connect(sockets[0], sockets[1], edge_kind::socket_link, nominal(60));
  for (unsigned n = 0; n < 4; ++n) {
    const vertex_id rc = b.root_complex(b.numa(n, sockets[n / 2]));
    for (int i = 0; i < 2; ++i) b.gpu(rc);
  }
  using enum island_kind;
  EXPECT_EQ(kinds_of(b.g), (std::vector{root_complex, socket, node}));
}

// Virtual partitions of one chip look like two root complexes. They are one island only where measurements say so.
TEST(islands, partitions_of_a_chip_are_joined_by_measurement) {
  machine_builder b;
  b.g = switched({2, 2}, {0, 0});
  for (vertex& v : b.g.vertices)
    if (v.kind == vertex_kind::pci_switch) v.chip = "left";
  const std::vector<vertex_id> gpus = b.g.gpus();
  EXPECT_EQ(kinds_of(b.g).size(), 2u) << "nothing was measured";
  const auto inside = [&](vertex_id x, vertex_id y) {
    return (std::find(gpus.begin(), gpus.end(), x) - gpus.begin()) / 2 ==
           (std::find(gpus.begin(), gpus.end(), y) - gpus.begin()) / 2;
  };
  b.measure_pairs(measured(50), {}, {}, inside);
  machine_builder slow = b;
  b.measure_pairs(measured(49), {}, {}, [&](vertex_id x, vertex_id y) { return !inside(x, y); });
  EXPECT_EQ(kinds_of(b.g).size(), 1u);
  slow.measure_pairs(measured(30), {}, {}, [&](vertex_id x, vertex_id y) { return !inside(x, y); });
  EXPECT_EQ(kinds_of(slow.g).size(), 2u);
}

TEST(cost, envelope_is_the_lowest_line_everywhere) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<line> lines(1 + random() % 12);
    for (line& l : lines) l = {static_cast<double>(random() % 50), static_cast<double>(random() % 20) / 100};
    const std::vector<lowest> found = envelope(lines);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found.back().up_to_bytes, UINT64_MAX);
    std::uint64_t from = 0;
    for (const lowest& l : found) {
      // Ends of the range, and its middle.
      const std::uint64_t to = std::min<std::uint64_t>(l.up_to_bytes, 1ull << 40);
      for (std::uint64_t bytes : {from, from + (to - from) / 2, to})
        for (const line& other : lines)
          EXPECT_LE(lines[l.index].us(bytes), other.us(bytes) + 1e-6) << bytes << " in round " << round;
      from = l.up_to_bytes + 1;
    }
  }
  EXPECT_TRUE(envelope({}).empty());
}

TEST(cost, time_is_that_of_the_slowest_edge_or_group) {
  graph g = one_switch(2, measured(40));
  const std::vector<vertex_id> gpus = g.gpus();
  fabric f;
  ASSERT_TRUE(make_fabric(g, gpus, {}, false, f).ok());
  load_table loads(f);
  loads.add(f, 0, 1, 3, direction::push);
  EXPECT_NEAR(loads.time_per_byte(f, false), 3.0 / 40, 1e-12);
  loads.add(f, 1, 0, 1, direction::push);
  EXPECT_NEAR(loads.time_per_byte(f, false), 3.0 / 40, 1e-12) << "directions are separate";
  const auto edges_at = [&](vertex_id v) {
    std::vector<std::uint32_t> list;
    for (std::uint32_t e = 0; e < g.edges.size(); ++e)
      if (g.edges[e].from == v || g.edges[e].to == v) list.push_back(e);
    return list;
  };
  g.groups.push_back({"both ways of GPU 0", edges_at(gpus[0]), measured(50)});
  ASSERT_TRUE(make_fabric(g, gpus, {}, false, f).ok());
  load_table both(f);
  both.add(f, 0, 1, 3, direction::push);
  both.add(f, 1, 0, 1, direction::push);
  EXPECT_NEAR(both.time_per_byte(f, false), 4.0 / 50, 1e-12);
  EXPECT_EQ(both.bottleneck(f), "group both ways of GPU 0");
}

TEST(capacity, a_nominal_figure_is_reduced_and_a_measured_one_is_not) {
  const cost_constants c;
  const graph nominal_one = one_switch(2, nominal(63)), measured_one = one_switch(2, measured(63));
  for (const graph* g : {&nominal_one, &measured_one}) {
    fabric f;
    const std::vector<vertex_id> gpus = g->gpus();
    ASSERT_TRUE(make_fabric(*g, gpus, c, false, f).ok());
    const double wanted = g == &nominal_one ? 63 * c.pcie_store_share : 63;
    EXPECT_NEAR(f.write[f.between(0, 1).edges[0]], wanted, 1e-9);
  }
}

// All pairs measured: what crosses the sockets is slower than the GPUs are, so the link between them is.
TEST(capacity, measured_pairs_find_the_slow_edge) {
  machine_builder b;
  b.g = direct_attached({});
  const std::vector<vertex_id> gpus = b.g.gpus();
  const auto near = [&](vertex_id x, vertex_id y) {
    return (std::find(gpus.begin(), gpus.end(), x) - gpus.begin()) / 4 ==
           (std::find(gpus.begin(), gpus.end(), y) - gpus.begin()) / 4;
  };
  b.measure_pairs(measured(55), {}, {}, near);
  machine_builder partly = b;
  b.measure_pairs(measured(30), {}, {}, [&](vertex_id x, vertex_id y) { return !near(x, y); });
  for (const machine_builder* machine : {&b, &partly}) {
    fabric f;
    ASSERT_TRUE(make_fabric(machine->g, gpus, {}, false, f).ok());
    for (std::uint32_t e = 0; e < machine->g.edges.size(); ++e)
      if (machine->g.edges[e].kind == edge_kind::socket_link) {
        EXPECT_EQ(f.write[e], machine == &b ? 30 : std::numeric_limits<double>::infinity());
      }
    const double at_gpu = f.write[f.between(0, 1).edges[0]];
    EXPECT_NEAR(at_gpu, machine == &b ? 55 : gen5_x16 * cost_constants().pcie_store_share, 1e-9);
  }
}

}  // namespace
}  // namespace xyl::topo::test
