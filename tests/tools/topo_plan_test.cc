// SPDX-License-Identifier: BSD-3-Clause
// What xylem-topo prints of plans.
#include "tools/topo_plan.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tools/filter_program.hpp"
#include "topo/built_machines.hpp"
#include "topo/json_read.hpp"

namespace xyl {
namespace {

using topo::pattern;

template <typename Print>
std::string printed(Print print, const topo::graph& g, const topo_plan_options& options) {
  std::ostringstream out;
  const result r = print(g, options, out);
  EXPECT_TRUE(r.ok()) << r.text();
  return out.str();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(topo_plan, prints_order_islands_times_and_loads) {
  topo_plan_options options;
  options.bytes = 1 << 20;
  const std::string text = printed(print_plan, topo::test::switched({2, 2}, {0, 1}), options);
  EXPECT_TRUE(contains(text, "  0 1 2 3\n")) << text;
  EXPECT_TRUE(contains(text, "switch:  [0 1] [2 3]\n")) << text;
  EXPECT_TRUE(contains(text, "predicted for 1M\n"));
  EXPECT_TRUE(contains(text, "allreduce by size\n"));
  EXPECT_TRUE(contains(text, "bytes written switch 1 -> root complex 1, of 63.0 GB/s\n")) << text;
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("* "); }), 1);
}

TEST(topo_plan, ranks_may_be_fewer_or_more_than_gpus) {
  topo_plan_options options;
  options.ranks = 2;
  const topo::graph g = topo::test::one_switch(4);
  EXPECT_TRUE(contains(printed(print_plan, g, options), "\n  0 1\n"));
  options.ranks = 8;
  EXPECT_TRUE(contains(printed(print_plan, g, options), "GPU:  [0 1] [2 3] [4 5] [6 7]\n"));
  std::ostringstream out;
  for (unsigned ranks : {0u, 257u}) {
    options.ranks = ranks;
    EXPECT_EQ(print_plan(g, options, out).code(), xylInvalidArgument);
  }
  EXPECT_EQ(out.str(), "");
}

TEST(topo_plan, without_gpus_ranks_are_processes) {
  topo::graph g;
  for (unsigned node : {0u, 1u}) {
    topo::vertex v;
    v.kind = topo::vertex_kind::numa_node;
    v.os_index = node;
    g.vertices.push_back(v);
  }
  topo_plan_options options;
  options.ranks = 4;
  options.bytes = 64 << 10;
  const std::string text = printed(print_plan, g, options);
  EXPECT_TRUE(contains(text, "  3  process on NUMA node 1\n")) << text;
  EXPECT_TRUE(contains(text, "NUMA node:  [0 1] [2 3]\n")) << text;
  EXPECT_TRUE(contains(text, "There is no GPU")) << text;
  EXPECT_TRUE(contains(text, "(not measured)")) << text;
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("* "); }), 1);
  const topo::json plan = topo::json::parse(printed(print_plan_json, g, options));
  EXPECT_EQ(plan["considered"].size(), static_cast<std::size_t>(topo::patterns));
  EXPECT_EQ(lines_of(printed(print_curve, {}, {})).size(), 22u);

  std::ostringstream out;
  for (unsigned ranks : {0u, 1u, 257u}) {
    options.ranks = ranks;
    EXPECT_EQ(print_plan(g, options, out).code(), xylInvalidArgument);
  }
  options.ranks = 2;
  options.nodes = 2;
  EXPECT_EQ(print_cluster(g, options, out).code(), xylInvalidArgument);
  EXPECT_EQ(out.str(), "");
}

TEST(topo_plan, json_has_every_collective) {
  const topo::json text = topo::json::parse(printed(print_plan_json, topo::test::one_switch(4), {}));
  EXPECT_EQ(text["thresholds"].size(), static_cast<std::size_t>(topo::patterns));
  EXPECT_EQ(text["ranks"].size(), 4u);
}

TEST(topo_plan, a_plan_file_that_is_not_there_is_said) {
  topo_plan_options options;
  options.plan_file = "/nonexistent.json";
  std::ostringstream out;
  const result r = print_plan(topo::test::one_switch(2), options, out);
  EXPECT_EQ(r.code(), xylInvalidUsage);
  EXPECT_TRUE(contains(r.text(), "/nonexistent.json"));
}

TEST(topo_plan, curve_goes_from_1_kb_to_1_gb_and_rises) {
  for (unsigned nodes : {1u, 16u}) {
    topo_plan_options options;
    options.nodes = nodes;
    const std::vector<std::string> lines =
        lines_of(printed(print_curve, topo::test::switched({4, 4}, {0, 1}), options));
    ASSERT_EQ(lines.size(), 22u);
    EXPECT_TRUE(lines[0].starts_with("bytes,winner,us,busbw,"));
    EXPECT_TRUE(lines[1].starts_with("1024,"));
    EXPECT_TRUE(lines[21].starts_with("1073741824,"));
    double before = 0;
    for (std::size_t i = 1; i < lines.size(); ++i) {
      const double us = std::stod(lines[i].substr(lines[i].find("\",") + 2));
      EXPECT_GT(us, before);
      before = us;
    }
  }
}

TEST(topo_plan, curve_is_drawn_where_gnuplot_is) {
  std::string version;
  if (!filter_through({"gnuplot", "--version"}, "", version).ok()) GTEST_SKIP() << "gnuplot is not installed";
  topo_plan_options options;
  const std::string svg = printed(plot_curve, topo::test::switched({4, 4}, {0, 1}), options);
  EXPECT_TRUE(contains(svg, "<svg"));
  EXPECT_TRUE(contains(svg, "hierarchical"));
  EXPECT_TRUE(contains(svg, "</svg>"));
}

TEST(topo_plan, a_cluster_is_printed) {
  topo_plan_options options;
  options.nodes = 4096;
  const std::string text = printed(print_cluster, topo::test::switched({4, 4}, {0, 1}), options);
  EXPECT_TRUE(contains(text, "4096 nodes of 8 ranks"));
  EXPECT_TRUE(contains(text, "12 and 12 deep")) << text;
  EXPECT_LT(text.size(), 10'000u);
  std::ostringstream out;
  options.nodes = 5000;
  EXPECT_EQ(print_cluster(topo::test::one_switch(2), options, out).code(), xylInvalidArgument);
}

TEST(filter_program, text_goes_in_and_out) {
  std::string out;
  const std::string much(1 << 20, 'x');
  ASSERT_TRUE(filter_through({"cat"}, much, out).ok());
  EXPECT_EQ(out, much);
  ASSERT_TRUE(filter_through({"true"}, much, out).ok());  // reads nothing
  EXPECT_EQ(out, "");
}

TEST(filter_program, a_program_that_fails_or_is_missing_is_an_error) {
  std::string out = "kept";
  const result failed = filter_through({"false"}, "", out);
  EXPECT_EQ(failed.code(), xylSystemError);
  EXPECT_TRUE(contains(failed.text(), "exit status 1"));
  const result missing = filter_through({"no-such-program"}, "", out);
  EXPECT_EQ(missing.code(), xylSystemError);
  EXPECT_TRUE(contains(missing.text(), "no-such-program"));
  EXPECT_EQ(out, "kept");
}

}  // namespace
}  // namespace xyl
