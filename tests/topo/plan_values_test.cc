// SPDX-License-Identifier: BSD-3-Clause
// What becomes of a plan: its description, a plan file, the table that ranks agree on.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "topo/built_machines.hpp"
#include "topo/describe.hpp"
#include "topo/plan_assertions.hpp"
#include "topo/plan_file.hpp"
#include "topo/plan_table.hpp"

namespace xyl::topo::test {
namespace {

std::string refused(std::string_view text) {
  plan_override o;
  o.rings = {{7}};
  const result r = read_plan_text(text, o);
  EXPECT_EQ(r.code(), xylInvalidUsage) << text;
  EXPECT_EQ(o.rings, (std::vector<std::vector<int>>{{7}})) << "touched by " << text;
  return r.text();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(plan_file, rings_and_thresholds_are_read) {
  plan_override o;
  const result r = read_plan_text(R"({"rings": [[0, 2, 1], [1, 2, 0]],
    "thresholds": {"allreduce": [{"up_to": "64K", "algorithm": "oneshot"}, {"up_to": 1000000, "algorithm": "tree"},
                                 {"algorithm": "copyenginering"}]}})",
                                  o);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_EQ(o.rings, (std::vector<std::vector<int>>{{0, 2, 1}, {1, 2, 0}}));
  ASSERT_EQ(o.thresholds.size(), 1u);
  EXPECT_EQ(o.thresholds[0].first, pattern::all_reduce);
  const auto& ranges = o.thresholds[0].second;
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].up_to_bytes, 65536u);
  EXPECT_EQ(ranges[1].up_to_bytes, 1000000u);
  EXPECT_EQ(ranges[1].how, method::tree);
  EXPECT_EQ(ranges[2].up_to_bytes, UINT64_MAX);
}

TEST(plan_file, mistakes_are_said_with_their_place) {
  EXPECT_TRUE(contains(refused("{"), "line 1"));
  EXPECT_TRUE(contains(refused(R"({"ring": []})"), "ring"));
  EXPECT_TRUE(contains(refused(R"({"rings": [[0, -1]]})"), "rings[0][1]"));
  EXPECT_TRUE(contains(refused(R"({"rings": [0]})"), "rings[0]"));
  EXPECT_TRUE(contains(refused(R"({"thresholds": {"allgater": []}})"), "allgater"));
  EXPECT_TRUE(contains(refused(R"({"thresholds": {"allreduce": []}})"), "thresholds.allreduce"));
  EXPECT_TRUE(contains(refused(R"({"thresholds": {"allreduce": [{"algorithm": "magic"}]}})"), "magic"));
  // What earlier versions had.
  const std::string text = refused(R"({"thresholds": {"allreduce": [{"algorithm": "twoshotll128"}]}})");
  EXPECT_TRUE(contains(text, "\"twoshotll128\"") && contains(text, "packet, oneshot, ") && contains(text, " and "))
      << text;
  EXPECT_TRUE(
      contains(refused(R"({"thresholds": {"allreduce": [{"up_to": "4KB", "algorithm": "ring"}]}})"), "up_to"));
  EXPECT_TRUE(contains(refused(R"({"thresholds": {"allreduce": [{"up_to": 5, "algorithm": "ring"}]}})"), "up_to"));
  EXPECT_TRUE(contains(
      refused(R"({"thresholds": {"allreduce": [{"algorithm": "ring"}, {"up_to": 5, "algorithm": "ring"}]}})"),
      "allreduce[1]"));
  plan_override o;
  const result missing = read_plan_file("/nonexistent/plan.json", o);
  EXPECT_EQ(missing.code(), xylInvalidUsage);
  EXPECT_TRUE(contains(missing.text(), "/nonexistent/plan.json"));
}

TEST(plan_file, parameters_go_into_the_request) {
  parameters p;
  plan_request request;
  ASSERT_TRUE(apply_parameters(p, request).ok());
  EXPECT_FALSE(request.forced);
  EXPECT_FALSE(request.override_with);
  for (int a = 0; a < algorithms; ++a) {
    p.forced_algorithm = static_cast<algorithm>(a);
    ASSERT_TRUE(apply_parameters(p, request).ok());
    ASSERT_TRUE(request.forced);
    EXPECT_STREQ(name_of(*request.forced), name_of(static_cast<algorithm>(a)));
  }
  p.forced_algorithm = algorithm::two_shot;
  p.deterministic = true;
  ASSERT_TRUE(apply_parameters(p, request).ok());
  EXPECT_EQ(request.forced, method::two_shot);
  EXPECT_TRUE(request.deterministic);
  p.plan_file = "/nonexistent/plan.json";
  EXPECT_EQ(apply_parameters(p, request).code(), xylInvalidUsage);
}

TEST(plan_file, a_description_can_be_prescribed) {
  const graph g = switched({2, 2}, {0, 1});
  const plan p = plan_of(g);
  plan_override o;
  const result r = read_plan_text(describe_text(p), o);
  ASSERT_TRUE(r.ok()) << r.text();
  plan_request request = one_rank_per_gpu(g);
  request.override_with = o;
  const plan again = plan_of(g, request);
  EXPECT_EQ(again.rings, p.rings);
  for (const collective_plan& c : p.collectives)
    for (std::uint64_t bytes : {64ull, 65536ull, 1ull << 20, 1ull << 30})
      EXPECT_EQ(again.find(c.what)->winner(bytes).how, c.winner(bytes).how) << name_of(c.what) << " " << bytes;
}

TEST(description, says_what_was_chosen_and_what_else_was_considered) {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1});
  g.write_collapse = measured(0.05);
  g.vertices[g.gpus()[0]].name = "GPU \xff zero";
  const json text = json::parse(describe_text(plan_of(g)));
  EXPECT_EQ(text["ranks"].size(), 8u);
  EXPECT_EQ(text["write_collapse"], true);
  EXPECT_EQ(text["islands"][0]["kind"], "switch");
  EXPECT_EQ(text["islands"][0]["ranks"][1], json::array({2, 3}));
  EXPECT_FALSE(text["thresholds"]["allreduce"].back().contains("up_to"));
  std::size_t hierarchical = 0;
  for (const json& c : text["considered"]["allreduce"]) {
    EXPECT_GT(c["predicted_us"]["1M"].get<double>(), c["predicted_us"]["1K"].get<double>());
    EXPECT_FALSE(c["phases"].empty());
    hierarchical += c["algorithm"] == "hierarchical";
  }
  EXPECT_GE(hierarchical, 2u);
}

TEST(description, sizes_are_written_as_they_are_read) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1000), "1000");
  EXPECT_EQ(size_text(1024), "1K");
  EXPECT_EQ(size_text(3u << 20), "3M");
  EXPECT_EQ(size_text(1ull << 40), "1024G");
}

plan_table table_of(const plan& p) {
  plan_table t;
  const result made = make_table(p, t);
  EXPECT_TRUE(made.ok()) << made.text();
  return t;
}

TEST(plan_table, carries_the_plan_by_value) {
  graph g = switched({2, 2, 2, 2}, {0, 0, 1, 1});
  const plan p = plan_of(g);
  const plan_table sent = table_of(p);
  unsigned char bytes[sizeof(plan_table)];
  std::memcpy(bytes, &sent, sizeof bytes);
  plan_table t;
  std::memcpy(&t, bytes, sizeof t);
  ASSERT_TRUE(t.plausible(8));
  EXPECT_EQ(t.hash(), sent.hash());
  ASSERT_EQ(t.rings, p.rings.size());
  for (std::size_t r = 0; r < p.rings.size(); ++r)
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(t.ring[r][i], p.rings[r][i]);
  const auto sw = static_cast<std::size_t>(island_kind::pci_switch);
  EXPECT_EQ(t.island[sw][4], t.island[sw][5]);
  EXPECT_NE(t.island[sw][3], t.island[sw][4]);
  EXPECT_EQ(t.island[static_cast<std::size_t>(island_kind::nvlink)][0], plan_table::none);
  for (const collective_plan& c : p.collectives)
    for (std::uint64_t size : {0ull, 4096ull, 65536ull, 1ull << 20, 1ull << 40}) {
      ASSERT_NE(t.choose(c.what, size), nullptr);
      EXPECT_EQ(t.choose(c.what, size)->how, static_cast<std::uint8_t>(c.winner(size).how));
    }
}

TEST(plan_table, hash_changes_with_everything_that_ranks_must_agree_on) {
  const graph g = switched({2, 2}, {0, 1});
  const plan p = plan_of(g);
  const std::uint64_t once = table_of(p).hash();
  EXPECT_EQ(table_of(plan_of(g)).hash(), once);
  plan changed = p;
  std::swap(changed.rings[0][1], changed.rings[0][2]);
  EXPECT_NE(table_of(changed).hash(), once);
  changed = p;
  ++changed.collectives[0].ranges[0].up_to_bytes;
  EXPECT_NE(table_of(changed).hash(), once);
  changed = p;
  changed.host_staged = true;
  EXPECT_NE(table_of(changed).hash(), once);
}

TEST(plan_table, garbage_of_another_process_is_not_plausible) {
  const graph g = switched({2, 2}, {0, 1});
  const plan_table good = table_of(plan_of(g));
  ASSERT_TRUE(good.plausible(4));
  EXPECT_FALSE(good.plausible(8));
  const auto expect_bad = [&](auto change, const char* what) {
    plan_table t = good;
    change(t);
    EXPECT_FALSE(t.plausible(4)) << what;
  };
  expect_bad([](plan_table& t) { t.rings = 9; }, "rings");
  expect_bad([](plan_table& t) { t.rings = 0; }, "no ring");
  expect_bad([](plan_table& t) { t.ring[0][3] = t.ring[0][2]; }, "a rank twice");
  expect_bad([](plan_table& t) { t.ring[0][3] = 400; }, "no such rank");
  expect_bad([](plan_table& t) { t.trees = 3; }, "trees");
  expect_bad([](plan_table& t) { t.parent[0][0] = 1, t.parent[0][1] = 0; }, "a cycle");
  expect_bad([](plan_table& t) { t.parent[0][0] = 63; }, "no such parent");
  expect_bad([](plan_table& t) { t.island[2][0] = 63; }, "no such island");
  expect_bad([](plan_table& t) { t.of[0].count = 17; }, "ranges");
  expect_bad([](plan_table& t) { t.of[0].ranges[0].how = methods; }, "no such method");
  expect_bad([](plan_table& t) { t.of[0].ranges[t.of[0].count - 1].up_to_bytes = 5; }, "sizes left out");
}

TEST(plan_table, has_room_for_64_ranks) {
  const graph g = one_switch(8);
  plan_request request;
  for (int i = 0; i < 64; ++i) request.gpu_of_rank.push_back(g.gpus()[static_cast<std::size_t>(i) % 8]);
  EXPECT_TRUE(table_of(plan_of(g, request)).plausible(64));
  request.gpu_of_rank.push_back(g.gpus()[0]);
  plan_table t;
  EXPECT_EQ(make_table(plan_of(g, request), t).code(), xylInvalidArgument);
}

}  // namespace
}  // namespace xyl::topo::test
