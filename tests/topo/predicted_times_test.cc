// SPDX-License-Identifier: BSD-3-Clause
// Predictions against published and measured times, each within 30%. What a prediction is given is written with it:
// the bandwidth of pairs or links of that machine and the time of a flag, never a point of the curve it is compared
// with; where a published program's own cost of a call is needed, it is taken from its smallest message, and the
// other sizes are predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "topo/built_machines.hpp"
#include "topo/machines.hpp"
#include "topo/plan_assertions.hpp"

namespace xyl::topo::test {
namespace {

constexpr std::uint64_t K = 1024, M = 1024 * K;
using curve = std::vector<std::pair<std::uint64_t, double>>;

const candidate& candidate_of(const plan& p, pattern what, method how, direction d = direction::push) {
  const collective_plan& c = *p.find(what);
  const auto at = std::find_if(c.candidates.begin(), c.candidates.end(), [&](const candidate& x) {
    return x.how == how && x.inside == d && x.across == d && !x.staged;
  });
  EXPECT_NE(at, c.candidates.end());
  return *at;
}

void expect_within_30_percent(const candidate& c, const curve& published) {
  for (const auto& [bytes, us] : published) {
    EXPECT_GT(c.cost.us(bytes), 0.7 * us) << name_of(c) << " at " << bytes << " bytes";
    EXPECT_LT(c.cost.us(bytes), 1.3 * us) << name_of(c) << " at " << bytes << " bytes";
  }
}

plan plan_on(const graph& g, std::vector<vertex_id> gpus, const cost_constants& constants = {}) {
  plan_request request;
  request.gpu_of_rank = std::move(gpus);
  request.constants = constants;
  return plan_of(g, request);
}

// Two sockets with a switch chip of two partitions each, two GPUs to a partition. Given: 53.6 GB/s between GPUs of
// one chip, 38.0 across chips, 1.07 us for a flag across root complexes, and that writes of one partition to two
// root complexes fall to 2.7 of 53.6 GB/s.
graph partitioned_switches() {
  graph g = machine("asus-esc8000a-e13p_2xTurin_2xPEX890xx-2VS_8xRTXPRO6000.hwloc2.xml");
  const std::vector<vertex_id> gpus = g.gpus();
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b) {
      if (a == b) continue;
      pair_figure p;
      p.from = gpus[a];
      p.to = gpus[b];
      p.write = measured(a / 4 == b / 4 ? 53.6 : 38.0);
      p.flag_latency = measured(a / 2 == b / 2 ? 0.68 : 1.07);
      g.pairs.push_back(p);
    }
  g.write_collapse = measured(2.7 / 53.6);
  return g;
}

// What that program spends on a call beside the model's flags: 6.1 us for 1 KB with four GPUs.
cost_constants call_of_the_published_program() {
  cost_constants c;
  c.launch_us = 6.1 - 2 * 1.07 - c.sync_us;
  return c;
}

TEST(predicted_times, one_shot_of_four_gpus_below_one_switch_chip) {
  const graph g = partitioned_switches();
  std::vector<vertex_id> gpus = g.gpus();
  gpus.resize(4);
  const plan p = plan_on(g, gpus, call_of_the_published_program());
  expect_within_30_percent(
      candidate_of(p, pattern::all_reduce, method::one_shot),
      {{4 * K, 6.5}, {16 * K, 7.7}, {64 * K, 11.8}, {256 * K, 28.7}, {512 * K, 51.0}, {1 * M, 95.6}});
}

TEST(predicted_times, one_shot_of_eight_gpus_whose_writes_collapse) {
  const graph g = partitioned_switches();
  const plan p = plan_on(g, g.gpus(), call_of_the_published_program());
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::one_shot),
                           {{256, 8.3}, {4 * K, 30.6}, {64 * K, 503.9}});
}

// Two sockets, eight GPUs without a switch. Given: 55.6 GB/s within a socket, 51.0 across. Published: 173 GB/s in
// all when every GPU sends to every other, and 37.6 GB/s of bus bandwidth for a ring on eight channels.
TEST(predicted_times, of_a_direct_attached_machine) {
  graph g = machine("dual-turin_direct-attach_8xRTXPRO6000.hwloc2.xml");
  const std::vector<vertex_id> gpus = g.gpus();
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      if (a != b) {
        pair_figure p;
        p.from = gpus[a];
        p.to = gpus[b];
        p.write = measured(a / 4 == b / 4 ? 55.6 : 51.0);
        g.pairs.push_back(p);
      }
  const plan p = plan_of(g);
  const std::uint64_t n = 1ull << 30;
  const double all_to_all = candidate_of(p, pattern::all_to_all, method::one_shot).cost.us(n);
  EXPECT_NEAR(7.0 * static_cast<double>(n) / all_to_all / 1000, 173, 0.3 * 173);
  const double ring_us = candidate_of(p, pattern::all_reduce, method::ring).cost.us(32 * M);
  EXPECT_NEAR(ring_us, 1.75 * 32 * M / 37.6 / 1000, 0.3 * 1.75 * 32 * M / 37.6 / 1000);
}

// Two switches of four GPUs on one socket. Given: 44.8 GB/s that the stores of one GPU reach on such a link, 0.68
// us for a flag below one switch and 1.07 across. Published: a library's rings, and 162 to 179 GB/s all to all.
TEST(predicted_times, rings_of_eight_gpus_below_two_switches) {
  graph g = machine("wrx90_2xSwitchtec-flat_8xRTXPRO6000.hwloc2.xml");
  for (edge& e : g.edges)
    if (e.kind == edge_kind::pcie) e.write = e.read = measured(44.8);
  const plan p = plan_of(g);
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::ring),
                           {{16 * K, 18.0}, {256 * K, 25.0}, {1 * M, 80.5}, {4 * M, 182.4}});
  const std::uint64_t n = 1ull << 30;
  const double ring_us = candidate_of(p, pattern::all_reduce, method::ring).cost.us(n);
  EXPECT_NEAR(1.75 * static_cast<double>(n) / ring_us / 1000, 46.4, 0.3 * 46.4);
  const double all_to_all = candidate_of(p, pattern::all_to_all, method::one_shot).cost.us(n);
  EXPECT_NEAR(7.0 * static_cast<double>(n) / all_to_all / 1000, 170, 0.3 * 170);
}

// Two GPUs joined by NVLink. Given: 320.7 GB/s of writes and 287 of reads each way at once, 1.3 us for a flag.
graph two_by_nvlink() {
  graph g = machine("h200x2-vm-nvlink.nccl.xml");
  for (edge& e : g.edges)
    if (e.kind == edge_kind::nvlink) {
      e.write = measured(320.7);
      e.read = measured(287);
    }
  for (std::size_t i : {0u, 1u}) {
    pair_figure p;
    p.from = g.gpus()[i];
    p.to = g.gpus()[1 - i];
    p.flag_latency = measured(1.3);
    g.pairs.push_back(p);
  }
  return g;
}

TEST(predicted_times, of_two_gpus_over_nvlink) {
  const plan p = plan_of(two_by_nvlink());
  expect_within_30_percent(
      candidate_of(p, pattern::all_reduce, method::packet),
      {{1 * K, 2.08}, {16 * K, 2.35}, {64 * K, 2.58}, {256 * K, 3.81}, {1 * M, 6.99}, {2 * M, 12.6}});
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::one_shot, direction::pull),
                           {{14 * K, 4.15}, {112 * K, 4.35}, {1 * M, 7.98}, {4 * M, 19.6}, {8 * M, 34.4}});
  // A library's ring, from where it uses all of the link.
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::ring), {{16 * M, 76.6}, {64 * M, 246}});
}

// The same two through host memory. Given: 29.1 GB/s each way while both directions of a GPU's link are busy, 1.9
// us for a flag.
TEST(predicted_times, of_two_gpus_through_host_memory) {
  graph g = machine("h200x2-vm-nvlink.hwloc2.xml");
  for (vertex_id gpu : g.gpus())
    for (std::uint32_t e = 0; e < g.edges.size(); ++e)
      if (g.edges[e].from == gpu && g.edges[e].kind == edge_kind::pcie)
        g.groups.push_back({"both ways of a GPU", {e, g.edges[e].reverse}, measured(2 * 29.1)});
  ASSERT_EQ(g.groups.size(), 2u);
  plan_request request = one_rank_per_gpu(g);
  request.host_staged = true;
  const plan p = plan_of(g, request);
  EXPECT_TRUE(p.host_staged);
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::packet),
                           {{1 * K, 2.98}, {16 * K, 4.44}, {64 * K, 7.67}, {256 * K, 20.5}});
  expect_within_30_percent(candidate_of(p, pattern::all_reduce, method::ring),
                           {{4 * M, 164}, {16 * M, 600}, {64 * M, 2362}});
}

}  // namespace
}  // namespace xyl::topo::test
