// SPDX-License-Identifier: BSD-3-Clause
// The user's word: it beats every other number, and a mistake in it changes nothing.
#include "topo/override.hpp"

#include "topo/export.hpp"
#include "topo/figure_merge.hpp"
#include "topo/machines.hpp"

namespace xyl::topo {
namespace {

const char* asus = "asus-esc8000a-e13p_2xTurin_2xPEX890xx-2VS_8xRTXPRO6000.hwloc2.xml";

TEST(figure_merge, later_sources_win_and_nothing_is_won_by_no_information) {
  const figure nothing, low{1, source::nominal, confidence::low}, nominal{2, source::nominal, confidence::medium},
      measured{3, source::measured, confidence::high}, user{4, source::user, confidence::high};
  const figure order[] = {nothing, low, nominal, measured, user};
  for (std::size_t i = 0; i < std::size(order); ++i)
    for (std::size_t j = 0; j < std::size(order); ++j) {
      figure f = order[i];
      merge(f, order[j]);
      EXPECT_EQ(f, order[std::max(i, j)]) << i << j;
    }
  figure f = nominal;
  merge(f, {9, source::nominal, confidence::medium});
  EXPECT_EQ(f.value, 9);
}

TEST(override, edges_pairs_groups_and_collapse) {
  graph g = machine(asus);
  const result r = apply_override(R"({
    "edges":  [{"between": ["0000:14:00.0", "GPU 0"], "write": 53.6, "latency": 0.7},
               {"from": "GPU 1", "to": "14:00.0", "write": 20}],
    "pairs":  [{"from": "GPU 2", "to": "GPU 3", "write": 50, "read": 48, "flag_latency": 0.68},
               {"from": "GPU 7", "to": "*", "peer_to_peer": false}],
    "groups": [{"name": "left chip", "total": 30, "edges": [["GPU 4", "0000:82:00.0"], ["0000:82:00.0", "GPU 5"]]}],
    "write_collapse": 0.05})",
                                  g);
  ASSERT_TRUE(r.ok()) << r.text();
  const std::vector<vertex_id> gpus = g.gpus();
  const path_finder find(g);
  EXPECT_EQ(find.find(gpus[0], gpus[1]).write, (figure{53.6, source::user, confidence::high}));
  EXPECT_NEAR(find.find(gpus[0], gpus[1]).read.value, 63, 0.1);
  EXPECT_DOUBLE_EQ(find.find(gpus[1], gpus[0]).write.value, 20);
  EXPECT_DOUBLE_EQ(find.find(gpus[2], gpus[3]).read.value, 48);
  EXPECT_DOUBLE_EQ(find.find(gpus[2], gpus[3]).latency.value, 0.68);
  EXPECT_EQ(name_of(find.find(gpus[7], gpus[0])), "HOST");
  EXPECT_EQ(name_of(find.find(gpus[0], gpus[7])), "SYS");
  EXPECT_DOUBLE_EQ(find.find(gpus[4], gpus[5]).write.value, 15);
  EXPECT_DOUBLE_EQ(g.write_collapse.value, 0.05);
  // Once more with another total: the group of that name is replaced.
  ASSERT_TRUE(apply_override(R"({"groups": [{"name": "left chip", "total": 31, "edges": []}]})", g).ok());
  ASSERT_EQ(g.groups.size(), 1u);
  EXPECT_DOUBLE_EQ(g.groups[0].total.value, 31);
}

TEST(override, a_uuid_names_a_gpu) {
  graph g = machine(asus);
  g.vertices[g.gpus()[5]].uuid = "GPU-5";
  EXPECT_EQ(find_vertex(g, "GPU-5"), g.gpus()[5]);
  EXPECT_EQ(find_vertex(g, "GPU 5"), g.gpus()[5]);
  EXPECT_EQ(find_vertex(g, "nothing"), no_vertex);
  g.vertices[g.gpus()[4]].uuid = "GPU-5";
  EXPECT_EQ(find_vertex(g, "GPU-5"), no_vertex);
}

TEST(override, mistakes_are_said_and_change_nothing) {
  graph g = machine(asus);
  const std::string before = export_json(g);
  const auto expect = [&](const std::string& text, const std::string& part) {
    const result r = apply_override(text, g);
    EXPECT_EQ(r.code(), xylInvalidArgument) << text;
    EXPECT_NE(r.text().find(part), std::string::npos) << r.text();
    EXPECT_EQ(export_json(g), before) << text;
  };
  expect("[]", "not an object");
  expect("{\"edge\": []}", "unknown key \"edge\"; known are edges, pairs, groups, write_collapse");
  expect(R"({"write_collapse": 0.5, "pairs": [{"from": "GPU 0"}]})", "pairs[0] has no \"to\"");
  expect(R"({"pairs": [{"from": "GPU 0", "to": "GPU 8"}]})", "called \"GPU 8\"");
  expect(R"({"pairs": [{"from": "GPU 0", "to": "socket 0"}]})", "socket 0 is not a GPU");
  expect(R"({"pairs": [{"from": "GPU 0", "to": "GPU 1", "write": -1}]})", "pairs[0].write is -1");
  expect(R"({"pairs": [{"from": "GPU 0", "to": "GPU 1", "write": "fast"}]})", "a number from 0");
  expect(R"({"pairs": [{"from": "GPU 0", "to": "GPU 1", "peer_to_peer": 1}]})", "true or false");
  expect(R"({"edges": [{"between": ["GPU 0", "GPU 1"], "write": 1}]})",
         "GPU 0 is not linked to GPU 1; it is to: PCIe switch");
  expect(R"({"edges": [{"write": 1}]})", "either \"between\" or \"from\"");
  expect(R"({"edges": [{"from": "GPU 0", "write": 1}]})", "without the other");
  expect(R"({"edges": [{"between": ["GPU 0"]}]})", "two names");
  expect(R"({"groups": [{"name": "a", "edges": []}]})", "needs \"total\"");
  expect(R"({"write_collapse": 2})", "a number from 0 to 1");
  expect("{", "line 1");
  // The line is that of the element that is wrong, wherever brackets, quotes and other lists are.
  expect(R"({"groups": [{"name": "pairs\"[,", "total": 1,
      "edges": [["GPU 4", "0000:82:00.0"], ["0000:82:00.0", "GPU 5"]]}],
    "pairs":
      [{"from": "GPU 0", "to": "GPU 1"}, {"from": "GPU 1",
        "to": "GPU 0"},
       {"from": "GPU 2", "to": "GPU 9"}]})",
         "line 6: pairs[2].to");
  expect("\n\n" + std::string(17, '['), "line 3: JSON nested deeper than 16");
  expect("{\"edges\": " + std::string(100'000, '['), "line 1: JSON nested deeper than 16");
  EXPECT_EQ(apply_override_file("/does/not/exist", g).code(), xylSystemError);
}

}  // namespace
}  // namespace xyl::topo
