// SPDX-License-Identifier: BSD-3-Clause
// The JSON form: everything survives it, and nothing that the rest of the library could fall over gets in.
#include "topo/export.hpp"

#include <gtest/gtest.h>

#include <string>

#include "topo/assembly.hpp"
#include "topo/import.hpp"

namespace xyl::topo {
namespace {

graph everything() {
  graph g;
  for (int k = 0; k <= static_cast<int>(vertex_kind::nv_switch); ++k)
    g.add(make_vertex(static_cast<vertex_kind>(k), "a \"vertex\"\n\xc3\xa4 " + std::to_string(k),
                      pci_address{0xabcdef, 0xff, 0x1f, 7}, 3));
  vertex& gpu = g.vertices[0];
  gpu.uuid = "GPU-1";
  gpu.sm = 120;
  gpu.bar1_bytes = 1ull << 37;
  gpu.mig = true;
  gpu.acs_redirect = true;
  gpu.iommu_translates = false;
  gpu.chip = "left";
  for (int k = 0; k <= static_cast<int>(edge_kind::internal); ++k)
    g.link(0, static_cast<vertex_id>(k + 1), static_cast<edge_kind>(k),
           {0.1 + 0.2, source::measured, confidence::high}, {1.0 / 3, source::nominal, confidence::low});
  g.edges[2].links = 18;
  g.edges[2].current = {4, source::user, confidence::medium};
  g.groups.push_back({"group", {0, 3}, {73.1, source::measured, confidence::high}});
  g.pairs.push_back(
      {0, 1, {1, source::user, confidence::high}, {}, {0.68, source::measured, confidence::medium}, false});
  g.write_collapse = {0.05, source::measured, confidence::high};
  g.notes = {"a note"};
  return g;
}

TEST(export_json, round_trip_of_everything) {
  const std::string text = export_json(everything());
  graph again;
  const result r = import_json(text, again);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_EQ(export_json(again), text);
  ASSERT_EQ(again.edges.size(), 10u);
  EXPECT_EQ(again.edges[0].write.value, 0.1 + 0.2);
  EXPECT_EQ(again.edges[3].reverse, 2u);
  EXPECT_EQ(again.edges[2].links, 18u);
  EXPECT_EQ(again.vertices[0].bar1_bytes, 1ull << 37);
  EXPECT_EQ(again.vertices[0].iommu_translates, false);
  EXPECT_EQ(again.pairs[0].peer_to_peer, false);
  EXPECT_EQ(again.vertices[0].name, everything().vertices[0].name);
}

TEST(export_json, an_empty_graph) {
  graph g;
  ASSERT_TRUE(import_json(export_json(graph()), g).ok());
  EXPECT_EQ(export_json(g), export_json(graph()));
}

TEST(export_json, bytes_that_are_no_text_are_replaced_once) {
  graph g;
  g.add(make_vertex(vertex_kind::gpu, "\xff\xfe"));
  graph again;
  ASSERT_TRUE(import_json(export_json(g), again).ok());
  EXPECT_EQ(export_json(again), export_json(g));
}

TEST(import_json, what_does_not_fit_is_refused_with_its_place) {
  const std::string good = export_json(everything());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    graph g;
    const result r = import_text(text, g);
    EXPECT_EQ(r.code(), xylInvalidArgument) << to;
    EXPECT_TRUE(g.vertices.empty());
    return r.text();
  };
  const auto expect = [](const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(with("xylem-topology", "something"), "\"xylem-topology\" is expected");
  expect(with("\"version\": 1", "\"version\": 2"), "version");
  expect(with("\"version\": 1", "\"version\": 0"), "version");
  expect(with("\"kind\":\"gpu\"", "\"kind\":\"cpu\""), "line 5: vertices[0].kind is \"cpu\"");
  expect(with("\"kind\":\"pcie\"", "\"kind\":7"), "edges[0].kind");
  expect(with("\"from\":0", "\"from\":9"), "edges[0].from");
  expect(with("\"from\":0", "\"from\":-1"), "edges[0].from");
  expect(with("\"from\":0", "\"from\":2"), "not the other direction");
  expect(with("\"reverse\":1", "\"reverse\":4000000000"), "not the other direction");
  expect(with("0.30000000000000004", "-1"), "edges[0].write");
  expect(with("0.30000000000000004", "1e999"), "number");
  expect(with("\"measured\",\"high\"", "\"measured\""), "[number, source, confidence]");
  expect(with("\"edges\":[0,3]", "\"edges\":[0,10]"), "groups[0].edges");
  expect(with("\"uuid\"", "\"uid\""), "unknown key \"uid\"");
  expect(with("abcdef:ff:1f.7", "0000:1"), "not a PCI address");
  expect(with("\"notes\"", "\"nodes\""), "nodes");
  expect(with("]\n}", "]\n"), "line ");
}

TEST(import_json, hostile_texts) {
  graph g;
  for (const std::string& text :
       {std::string(1 << 20, '['), "{" + std::string(1 << 20, '['), std::string("{\"a\":"), std::string("{}"),
        "{\"a\":\"" + std::string(5 << 20, 'x') + "\"}", std::string("{\"vertices\":\"\xff\"}"),
        std::string("{\"\\ud800\":1}")})
    EXPECT_EQ(import_text(text, g).code(), xylInvalidArgument) << text.substr(0, 40);
}

}  // namespace
}  // namespace xyl::topo
