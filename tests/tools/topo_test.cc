// SPDX-License-Identifier: BSD-3-Clause
// xylem-topo without a process: the command line, the tree, the matrix, the drawing, and Graphviz that is missing.
#include <gtest/gtest.h>

#include "tools/topo_graphviz.hpp"
#include "tools/topo_options.hpp"
#include "tools/topo_text.hpp"
#include "topo/machines.hpp"
#include "topo/override.hpp"

namespace xyl {
namespace {

using topo::graph;

const char* asus = "asus-esc8000a-e13p_2xTurin_2xPEX890xx-2VS_8xRTXPRO6000.hwloc2.xml";

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

result parse(std::vector<const char*> arguments, topo_options& out) {
  arguments.insert(arguments.begin(), "xylem-topo");
  return parse_topo_options(static_cast<int>(arguments.size()), arguments.data(), out);
}

topo_options good(const std::vector<const char*>& arguments) {
  topo_options out;
  const result r = parse(arguments, out);
  EXPECT_TRUE(r.ok()) << r.text();
  return out;
}

TEST(topo_options, all_of_them) {
  const topo_options nothing = good({});
  EXPECT_TRUE(nothing.file.empty());
  EXPECT_EQ(nothing.format, topo_format::text);
  EXPECT_FALSE(nothing.advise);
  EXPECT_FALSE(nothing.live);
  const topo_options all =
      good({"--file", "a.xml", "--override", "b.json", "--live", "--format", "SVG", "--export", "c.json"});
  EXPECT_EQ(all.file, "a.xml");
  EXPECT_EQ(all.override_file, "b.json");
  EXPECT_EQ(all.export_file, "c.json");
  EXPECT_EQ(all.format, topo_format::svg);
  EXPECT_TRUE(all.live);
  EXPECT_TRUE(good({"--advise"}).advise);
  EXPECT_EQ(good({"--format=dot"}).format, topo_format::dot);
  EXPECT_EQ(good({"--format=json"}).format, topo_format::json);
  EXPECT_TRUE(says(good({"--help"}).help, "--advise"));
  EXPECT_TRUE(says(good({"--version"}).help, "xylem-topo 0."));
}

TEST(topo_options, plans) {
  EXPECT_FALSE(good({}).plan);
  const topo_options plan = good({"--plan", "64K", "--ranks", "4", "--collective", "AllGather"});
  EXPECT_TRUE(plan.plan);
  EXPECT_FALSE(plan.curve);
  EXPECT_EQ(plan.plans.bytes, 65536u);
  EXPECT_EQ(plan.plans.ranks, 4u);
  EXPECT_EQ(plan.plans.what, topo::pattern::all_gather);
  EXPECT_EQ(plan.plans.nodes, 1u);
  const topo_options cluster = good({"--curve", "--nodes", "4096", "--network", "100,2.5", "--format", "svg"});
  EXPECT_TRUE(cluster.curve);
  EXPECT_EQ(cluster.plans.nodes, 4096u);
  EXPECT_EQ(cluster.plans.between.capacity, 100);
  EXPECT_EQ(cluster.plans.between.us, 2.5);
  EXPECT_TRUE(says(good({"--help"}).help, "--collective"));
}

TEST(topo_options, mistakes_of_plans) {
  for (const std::vector<const char*>& wrong : {std::vector<const char*>{"--plan", "64KB"},
                                                {"--plan"},
                                                {"--plan", "-1"},
                                                {"--ranks", "4"},
                                                {"--collective", "allreduce"},
                                                {"--plan", "1K", "--ranks", "0"},
                                                {"--plan", "1K", "--ranks", "257"},
                                                {"--plan", "1K", "--collective", "gather"},
                                                {"--plan", "1K", "--curve"},
                                                {"--plan", "1K", "--advise"},
                                                {"--plan", "1K", "--format", "dot"},
                                                {"--curve", "--format", "json"},
                                                {"--nodes", "4097"},
                                                {"--nodes", "0"},
                                                {"--nodes", "2", "--format", "json"},
                                                {"--network", "50,3", "--plan", "1K"},
                                                {"--nodes", "2", "--network", "50"},
                                                {"--nodes", "2", "--network", "0,3"},
                                                {"--nodes", "2", "--network", "50,3x"},
                                                {"--nodes", "2", "--network", "inf,3"}}) {
    topo_options out;
    const result r = parse(wrong, out);
    EXPECT_FALSE(says(r.text(), "->")) << r.text();
    EXPECT_EQ(r.code(), xylInvalidArgument) << wrong.front() << " " << wrong.back();
    EXPECT_FALSE(out.plan);
  }
}

TEST(topo_options, mistakes) {
  for (const std::vector<const char*>& wrong : {std::vector<const char*>{"--format", "png"},
                                                {"--live"},
                                                {"--file"},
                                                {"--frobnicate"},
                                                {"file.xml"},
                                                {"--advise", "--format", "dot"}}) {
    topo_options out;
    out.file = "untouched";
    const result r = parse(wrong, out);
    EXPECT_EQ(r.code(), xylInvalidArgument) << wrong.front();
    EXPECT_TRUE(says(r.text(), "--help")) << r.text();
    EXPECT_FALSE(says(r.text(), "->")) << r.text();
    EXPECT_EQ(out.file, "untouched");
  }
}

TEST(topo_text, the_tree_shows_what_hangs_on_what) {
  const std::string text = topo_tree(topo::machine(asus));
  EXPECT_TRUE(says(text,
                   "socket 0\n  NUMA node 0\n    memory of NUMA node 0\n    root complex 0000:10\n"
                   "      root port 0000:10:01.1\n        PCIe switch 1000:c030 at 0000:14:00.0  63.0 GB/s\n"
                   "          GPU 0  0000:16:00.0  63.0 GB/s\n"))
      << text;
  EXPECT_TRUE(says(text, "\nsocket 1\n"));
}

TEST(topo_text, idle_links_and_nvlinks) {
  EXPECT_TRUE(says(topo_tree(topo::machine("wrx90_2xSwitchtec-flat_8xRTXPRO6000_IDLE-gen1.hwloc2.xml")),
                   "63.0 GB/s (now 4.0)"));
  EXPECT_TRUE(says(topo_tree(topo::machine("h200x2-vm-nvlink.nccl.xml")), "18 NVLinks  ~450.0 GB/s"));
}

TEST(topo_text, a_number_says_where_it_is_from) {
  using topo::confidence, topo::source;
  EXPECT_EQ(shown_capacity({63.04, source::nominal, confidence::medium}), "63.0 GB/s");
  EXPECT_EQ(shown_capacity({63.04, source::nominal, confidence::low}), "~63.0 GB/s");
  EXPECT_EQ(shown_capacity({53.6, source::measured, confidence::high}), "53.6 GB/s (measured)");
  EXPECT_EQ(shown_capacity({20, source::user, confidence::high}), "20.0 GB/s (told)");
  EXPECT_EQ(shown_capacity({}), "?");
}

TEST(topo_text, the_matrix) {
  const std::string text = topo_matrix(topo::machine("h200x2-vm-nvlink.nccl.xml"));
  EXPECT_EQ(text.rfind("       GPU0   GPU1   NUMA\n"
                       "GPU0   X      NV18   ?\n"
                       "GPU1   NV18   X      ?\n",
                       0),
            0u)
      << text;
  EXPECT_EQ(topo_matrix(graph()), "There is no GPU.\n");
}

TEST(topo_text, rates_are_shown_where_somebody_knows_them) {
  graph g = topo::machine("h200x2-vm-nvlink.nccl.xml");
  EXPECT_EQ(topo_rates(g), "");
  ASSERT_TRUE(topo::apply_override(R"({"pairs": [{"from": "GPU 0", "to": "GPU 1", "write": 320.7}]})", g).ok());
  EXPECT_EQ(topo_rates(g),
            "\nGB/s from row to column: as measured or told, else nominal\n"
            "       GPU0   GPU1   \n"
            "GPU0   X      320.7  \n"
            "GPU1   450.0  X      \n");
  EXPECT_EQ(topo_rates(graph()), "");
}

// Names come from files.
TEST(topo_text, control_characters_do_not_reach_the_terminal) {
  graph g;
  topo::vertex v;
  v.name = "GPU \x1b[2J\"\\";
  g.add(v);
  g.notes.push_back("\x1b]0;title\x07");
  for (const std::string& text : {topo_tree(g), topo_notes(g), topo_dot(g)})
    for (char c : text) EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' || c == '\n') << text;
  EXPECT_TRUE(says(topo_dot(g), "GPU ?[2J\\\"\\\\"));
}

TEST(topo_text, a_ring_of_links_ends) {
  graph g;
  for (int i = 0; i < 3; ++i) g.add({});
  for (topo::vertex_id i = 0; i < 3; ++i) g.link(i, (i + 1) % 3, topo::edge_kind::internal, {}, {});
  const std::string text = topo_tree(g);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(topo_text, a_drawing_has_every_vertex_and_link_once) {
  const graph g = topo::machine(asus);
  const std::string text = topo_dot(g);
  std::size_t vertices = 0, links = 0;
  for (std::size_t at = text.find("[label="); at != text.npos; at = text.find("[label=", at + 1)) ++vertices;
  for (std::size_t at = text.find(" -- "); at != text.npos; at = text.find(" -- ", at + 1)) ++links;
  EXPECT_EQ(links, g.edges.size() / 2);
  EXPECT_EQ(vertices - links, g.vertices.size());
}

TEST(topo_text, advice) {
  EXPECT_TRUE(says(topo_advice({}), "Nothing to complain about"));
  const std::string text = topo_advice({{topo::weight::costly, "It is slow", "this was seen", "do that"}});
  EXPECT_EQ(text, "1. It is slow (costly)\n   Seen: this was seen\n   Do:   do that\n");
  EXPECT_TRUE(says(topo_advice({{topo::weight::costly, "Slow", "seen", "first\nthen\x1b"}}),
                   "   Do:   first\n         then?\n"));
  EXPECT_EQ(topo_hint({}), "");
  EXPECT_EQ(topo_hint({{topo::weight::unknown, "Not known", "", ""}}), "");
  EXPECT_EQ(topo_hint({{topo::weight::costly, "Slow", "", ""}, {topo::weight::worth, "Old", "", ""}}),
            "Found: Slow; Old. --advise says what was seen and what to do.\n");
}

TEST(topo_graphviz, a_missing_program_is_named_with_the_way_out) {
  const result r = draw_svg("graph {}", "no-such-program-as-dot");
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_TRUE(says(r.text(), "no-such-program-as-dot is not installed"));
  EXPECT_TRUE(says(r.text(), "--format dot"));
  EXPECT_TRUE(says(draw_svg("graph {}", "false").text(), "failed"));
  EXPECT_TRUE(draw_svg("graph {}", "true").ok());
}

}  // namespace
}  // namespace xyl
