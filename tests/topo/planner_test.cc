// SPDX-License-Identifier: BSD-3-Clause
// Plans of machines built by hand.
#include "topo/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "topo/built_machines.hpp"
#include "topo/plan_assertions.hpp"

namespace xyl::topo::test {
namespace {

TEST(planner, plans_of_machines_built_by_hand_are_sound) {
  expect_sound(switched({2, 2, 2, 2}, {0, 0, 1, 1}), "two sockets, two switches each");
  expect_sound(switched({4, 4}, {0, 0}), "two switches");
  expect_sound(switched({3, 1, 4}, {0, 0, 1}), "uneven switches");
  expect_sound(direct_attached(), "direct attached");
  expect_sound(direct_attached(nominal(20)), "slow link between sockets");
  expect_sound(flat_virtual_machine(8), "flat");
  expect_sound(one_switch(1), "one GPU");
  expect_sound(one_switch(2), "two GPUs");
  expect_sound(one_switch(7), "seven GPUs");
  expect_sound(with_nvswitch(8, 450), "NVSwitch");
  expect_sound(cube_mesh(), "cube mesh");
  expect_sound(four_sockets(), "four sockets");
  expect_sound(quadrants(73), "quadrants");
  for (unsigned seed = 0; seed < 12; ++seed)
    expect_sound(random_tree(2 + seed % 11, seed), "random tree " + std::to_string(seed));
}

TEST(planner, a_flat_virtual_machine_is_planned_as_one_switch) {
  const plan flat = plan_of(flat_virtual_machine(8)), one = plan_of(one_switch(8, nominal(26)));
  EXPECT_EQ(flat.rings, one.rings);
  EXPECT_EQ(flat.islands.size(), 1u);
  EXPECT_TRUE(std::any_of(flat.notes.begin(), flat.notes.end(), [](const std::string& note) {
    return note.find("nothing is known of the links") != std::string::npos;
  }));
}

TEST(planner, several_ranks_on_a_gpu_follow_each_other_and_are_an_island) {
  const graph g = one_switch(2);
  const std::vector<vertex_id> gpus = g.gpus();
  plan_request request;
  request.gpu_of_rank = {gpus[1], gpus[0], gpus[1], gpus[0]};
  const plan p = plan_of(g, request);
  EXPECT_EQ(p.rings[0], (std::vector<int>{1, 3, 0, 2}));
  ASSERT_EQ(p.islands.size(), 2u);
  EXPECT_EQ(p.islands[0].kind, island_kind::gpu);
  EXPECT_EQ(p.islands[0].ranks, (std::vector<std::vector<int>>{{1, 3}, {0, 2}}));
}

TEST(planner, a_single_rank_needs_no_peer) {
  const plan p = plan_of(one_switch(1));
  EXPECT_EQ(p.rings, (std::vector<std::vector<int>>{{0}}));
  for (const collective_plan& c : p.collectives) EXPECT_LT(c.predicted_us(1 << 30), 2);
}

TEST(planner, ranks_have_to_be_on_gpus) {
  const graph g = one_switch(2);
  plan p;
  plan_request request;
  EXPECT_EQ(make_plan(g, request, p).code(), xylInvalidArgument);
  request.gpu_of_rank = {0};  // the root complex
  const result wrong = make_plan(g, request, p);
  EXPECT_EQ(wrong.code(), xylInvalidArgument);
  EXPECT_NE(wrong.text().find("rank 0"), std::string::npos);
  request.gpu_of_rank = {9999};
  EXPECT_EQ(make_plan(g, request, p).code(), xylInvalidArgument);
  request.gpu_of_rank.assign(1000, g.gpus()[0]);
  EXPECT_EQ(make_plan(g, request, p).code(), xylInvalidArgument);
  request = one_rank_per_gpu(g);
  request.root = 2;
  EXPECT_EQ(make_plan(g, request, p).code(), xylInvalidArgument);
}

// Where writes collapse, one-shot still wins while it is small, and something that respects the rule afterwards.
TEST(planner, a_flagged_collapse_moves_thresholds_and_forbids_nothing) {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1});
  const plan without = plan_of(g);
  g.write_collapse = measured(0.05);
  const plan with = plan_of(g);
  const collective_plan& before = *without.find(pattern::all_reduce);
  const collective_plan& after = *with.find(pattern::all_reduce);
  EXPECT_EQ(before.winner(64).how, method::packet);
  EXPECT_EQ(after.winner(64).how, method::packet);
  EXPECT_EQ(before.winner(4096).how, method::packet);
  EXPECT_NE(after.winner(65536).how, method::one_shot);
  EXPECT_LT(after.ranges[0].up_to_bytes, before.ranges[0].up_to_bytes / 4);
  EXPECT_GT(without.rings.size(), with.rings.size());
}

// Where reads were measured to be good, pulling needs no detour around a collapse.
TEST(planner, measured_reads_are_used_where_writes_collapse) {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1});
  g.write_collapse = measured(0.05);
  const auto pulls = [](const plan& p) {
    const auto& candidates = p.find(pattern::all_reduce)->candidates;
    return std::count_if(candidates.begin(), candidates.end(), [](const candidate& c) {
      return c.inside == direction::pull || c.across == direction::pull;
    });
  };
  EXPECT_EQ(pulls(plan_of(g)), 0);
  machine_builder b;
  b.g = g;
  b.measure_pairs({}, measured(51), {}, [](vertex_id, vertex_id) { return true; });
  const plan p = plan_of(b.g);
  EXPECT_GT(pulls(p), 3);
  EXPECT_EQ(p.find(pattern::all_to_all)->winner(16 << 20).across, direction::pull);
}

// Pulled over NVLink inside, pushed over PCIe across: each phase for itself.
TEST(planner, directions_are_chosen_per_phase) {
  graph g = switched({2, 2}, {0, 1});
  const std::vector<vertex_id> gpus = g.gpus();
  for (std::size_t first : {0u, 2u})
    for (std::uint32_t e = g.link(gpus[first], gpus[first + 1], edge_kind::nvlink, measured(100), {}), i = 0; i < 2;
         ++i)
      g.edges[e + i].read = measured(400);
  const plan p = plan_of(g);
  const candidate& c = p.find(pattern::all_reduce)->winner(256 << 20);
  EXPECT_EQ(c.how, method::hierarchical);
  EXPECT_EQ(c.inside, direction::pull) << name_of(c);
  EXPECT_EQ(c.across, direction::push) << name_of(c);
}

TEST(planner, a_forced_algorithm_and_determinism_are_honoured) {
  const graph g = switched({4, 4}, {0, 1});
  plan_request request = one_rank_per_gpu(g);
  request.forced = method::ring;
  const plan forced = plan_of(g, request);
  for (std::uint64_t bytes : {1ull, 1ull << 20, 1ull << 34})
    EXPECT_EQ(forced.find(pattern::all_reduce)->winner(bytes).how, method::ring);
  EXPECT_EQ(forced.find(pattern::all_reduce)->reason, "XYLEM_ALGO=ring");
  EXPECT_EQ(forced.find(pattern::all_gather)->winner(1).how, method::packet);

  request.forced.reset();
  request.deterministic = true;
  const plan deterministic = plan_of(g, request);
  for (std::uint64_t bytes : {1ull, 1ull << 20, 1ull << 34})
    EXPECT_TRUE(in_rank_order(deterministic.find(pattern::all_reduce)->winner(bytes).how));
  EXPECT_EQ(deterministic.find(pattern::all_gather)->winner(1ull << 34).how, method::copy_engine_ring);
}

TEST(planner, prescribed_rings_and_thresholds_are_used) {
  const graph g = one_switch(4);
  plan_request request = one_rank_per_gpu(g);
  plan_override o;
  o.rings = {{0, 2, 1, 3}};
  o.thresholds = {{pattern::all_reduce, {{1000, method::tree}, {UINT64_MAX, method::one_shot}}}};
  request.override_with = o;
  const plan p = plan_of(g, request);
  EXPECT_EQ(p.rings, o.rings);
  EXPECT_EQ(p.find(pattern::all_reduce)->winner(1000).how, method::tree);
  EXPECT_EQ(p.find(pattern::all_reduce)->winner(1001).how, method::one_shot);
  EXPECT_EQ(p.find(pattern::all_gather)->winner(64).how, method::packet);

  plan out;
  o.rings = {{0, 2, 1, 1}};
  request.override_with = o;
  EXPECT_EQ(make_plan(g, request, out).code(), xylInvalidUsage);
  o.rings = {{0, 2, 1}};
  request.override_with = o;
  EXPECT_EQ(make_plan(g, request, out).code(), xylInvalidUsage);
  o.rings.clear();
  o.thresholds[0].second.pop_back();
  request.override_with = o;
  EXPECT_EQ(make_plan(g, request, out).code(), xylInvalidUsage);
}

// Without a total per quadrant buffers lie with their receivers. When one quadrant gets slow, some move away from
// it.
TEST(planner, bounce_buffers_leave_a_slow_quadrant) {
  plan_request request = one_rank_per_gpu(quadrants(73));
  request.host_staged = true;
  const plan even = plan_of(quadrants(73), request);
  for (const bounce& b : even.bounces) EXPECT_EQ(b.numa_node, b.rank / 2) << b.rank;
  graph g = quadrants(73);
  g.groups[0].total = measured(20);
  const plan uneven = plan_of(g, request);
  const auto in_slow =
      std::count_if(uneven.bounces.begin(), uneven.bounces.end(), [](const bounce& b) { return b.numa_node == 0; });
  EXPECT_LT(in_slow, 2);
  // All in one quadrant is what a careless placement would cost: both sides of all traffic through one total.
  const double placed = even.find(pattern::all_to_all)->predicted_us(64 << 20);
  graph one_quadrant = quadrants(73);
  for (vertex& v : one_quadrant.vertices)
    if (v.kind == vertex_kind::host_memory && v.os_index != 0u) v.kind = vertex_kind::nic;
  EXPECT_GT(plan_of(one_quadrant, request).find(pattern::all_to_all)->predicted_us(64 << 20), 2 * placed);
}

TEST(planner, loads_of_uplinks_equal_the_formulas) {
  const graph g = switched({4, 4}, {0, 0});
  const plan p = plan_of(g);
  const auto uplink_load = [&](const candidate& c) {
    double sum = 0;
    for (const phase_cost& phase : c.phases)
      for (const edge_load& load : phase.loads) {
        const edge& e = g.edges[load.edge];
        if (g.vertices[e.from].kind == vertex_kind::pci_switch &&
            g.vertices[e.to].kind == vertex_kind::root_complex)
          sum = std::max(sum, 0.0) + load.write / 2;  // two switches, equal loads
      }
    return sum;
  };
  const double n = 8, g_size = 4, s = 2;
  for (const candidate& c : p.find(pattern::all_reduce)->candidates) {
    SCOPED_TRACE(name_of(c));
    switch (c.how) {
      case method::packet:
        EXPECT_NEAR(uplink_load(c), 2 * g_size * (n - g_size), 1e-9);
        break;
      case method::one_shot:
        EXPECT_NEAR(uplink_load(c), g_size * (n - g_size), 1e-9);
        break;
      case method::two_shot_packet:
        EXPECT_NEAR(uplink_load(c), 4 * g_size * (n - g_size) / n, 1e-9);
        break;
      case method::two_shot:
        EXPECT_NEAR(uplink_load(c), 2 * g_size * (n - g_size) / n, 1e-9);
        break;
      case method::ring:
      case method::copy_engine_ring:
        EXPECT_NEAR(uplink_load(c), 2 * (n - 1) / n, 1e-9);
        break;
      case method::hierarchical:
        EXPECT_NEAR(uplink_load(c), 2 * (s - 1) / s, 1e-9);
        break;
      case method::tree:
        // Up and down between the halves: one message in all, half of it in each tree; the second tree is moved by
        // one position and crosses once more.
        EXPECT_GE(uplink_load(c), 1.0 - 1e-9);
        EXPECT_LE(uplink_load(c), 2.0 + 1e-9);
        break;
      case method::wide_packet:
      case method::line_packet:
      case method::single_copy:
        ADD_FAILURE() << "devices are not planned with it";
        break;
    }
  }
}

}  // namespace
}  // namespace xyl::topo::test
