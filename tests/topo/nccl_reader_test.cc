// SPDX-License-Identifier: BSD-3-Clause
// NCCL topology files made by hand: what is assumed, what is noted, what is refused.
#include "topo/nccl_reader.hpp"

#include <gtest/gtest.h>

#include <string>

#include "topo/machines.hpp"

namespace xyl::topo {
namespace {

std::string cpu(const std::string& inside, const std::string& id = "0") {
  return "<cpu numaid=\"" + id + "\">\n" + inside + "</cpu>\n";
}
std::string system(const std::string& inside) { return "<system version=\"1\">\n" + inside + "</system>\n"; }
std::string gpu(const std::string& address, const std::string& inside = "") {
  return "<pci busid=\"" + address +
         "\" class=\"0x030200\" vendor=\"0x10de\" link_speed=\"16 GT/s\" "
         "link_width=\"16\"><gpu dev=\"0\" sm=\"90\">" +
         inside + "</gpu></pci>\n";
}
std::string nvlink(const std::string& target, int count, const std::string& target_class = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + target_class +
         "\"/>";
}

graph read_good(const std::string& text) {
  graph g;
  const result r = import_text(text, g);
  EXPECT_TRUE(r.ok()) << r.text();
  return g;
}

std::string text_of_bad(const std::string& text) {
  graph g;
  const result r = import_text(text, g);
  EXPECT_EQ(r.code(), xylInvalidArgument) << text;
  return r.text();
}

TEST(nccl_reader, nvlinks_between_gpus_are_one_link_however_often_they_are_listed) {
  const graph g = read_good(system(cpu(gpu("0000:01:00.0", nvlink("0000:02:00.0", 4)) +
                                       gpu("0000:02:00.0", nvlink("0000:01:00.0", 4)) + gpu("0000:03:00.0"))));
  EXPECT_EQ(classes(g), (std::vector<std::string>{"LOC NV4 NODE", "NV4 LOC NODE", "NODE NODE LOC"}));
  EXPECT_DOUBLE_EQ(find_path(g, g.gpus()[0], g.gpus()[1]).write.value, 100);
}

TEST(nccl_reader, nvswitches_are_merged) {
  std::string links;
  for (int i = 0; i < 6; ++i) links += nvlink("0000:c" + std::to_string(i) + ":00.0", 2, "0x068000");
  const graph g = read_good(system(cpu(gpu("0000:01:00.0", links)) + cpu(gpu("0000:02:00.0", links), "1")));
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "NV12", ""));
  unsigned switches = 0;
  for (const vertex& v : g.vertices) switches += v.kind == vertex_kind::nv_switch;
  EXPECT_EQ(switches, 1u);
}

TEST(nccl_reader, links_to_nowhere_are_noted) {
  const graph g = read_good(system(cpu(gpu("0000:01:00.0", nvlink("0000:01:00.0", 12)) +
                                       gpu("0000:02:00.0", nvlink("nonsense", 12) + nvlink("0000:77:00.0", 1)))));
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "NODE", ""));
  EXPECT_EQ(g.notes.size(), 2u);
}

TEST(nccl_reader, cycles_of_links_and_bridges_end) {
  const graph g = read_good(
      system(cpu("<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">"
                 "<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"16\">" +
                 gpu("0000:01:00.0", nvlink("0000:02:00.0", 1)) + gpu("0000:02:00.0", nvlink("0000:03:00.0", 1)) +
                 gpu("0000:03:00.0", nvlink("0000:01:00.0", 1)) + gpu("0000:04:00.0") + "</pci></pci>")));
  EXPECT_EQ(classes(g),
            (std::vector<std::string>{"LOC NV1 NV1 PIX", "NV1 LOC NV1 PIX", "NV1 NV1 LOC PIX", "PIX PIX PIX LOC"}));
  EXPECT_EQ(g.notes.size(), 1u);
}

TEST(nccl_reader, duplicate_addresses_and_numa_nodes_are_noted) {
  const graph g = read_good(system(cpu(gpu("0000:01:00.0") + gpu("0000:01:00.0")) + cpu(gpu("0000:02:00.0"))));
  EXPECT_EQ(g.gpus().size(), 3u);
  EXPECT_EQ(g.notes.size(), 2u);
  EXPECT_EQ(classes(g), grouped(3, 1, 3, "", "NODE", ""));
}

TEST(nccl_reader, a_numa_node_without_a_number) {
  const graph g = read_good(system(cpu(gpu("0000:01:00.0"), "-1")));
  for (const vertex& v : g.vertices)
    if (v.kind == vertex_kind::numa_node) {
      EXPECT_FALSE(v.os_index);
    }
  EXPECT_NE(path_finder(g).nearest_memory(g.gpus()[0]), no_vertex);
}

TEST(nccl_reader, a_device_without_a_class_that_holds_others_is_a_switch) {
  const graph g =
      read_good(system(cpu("<pci busid=\"0000:10:00.0\">" + gpu("0000:01:00.0") + gpu("0000:02:00.0") + "</pci>")));
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "PIX", ""));
  EXPECT_TRUE(g.notes.empty());
}

TEST(nccl_reader, what_makes_no_sense_is_refused_with_its_line) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const std::string error = text_of_bad(text);
    EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_EQ(error.rfind("line ", 0), 0u) << error;
  };
  expect(system("\n\n<cpu numaid=\"x\"/>"), "line 4: numaid \"x\"");
  expect(system("<cpu/>"), "numaid \"\"");
  expect(system(cpu("<cpu numaid=\"1\"/>")), "line 3: a <cpu> that is not directly in <system>");
  expect(system("<pci busid=\"0000:01:00.0\"/>"), "a <pci> that is not in a <cpu>");
  expect(system(cpu("<pci/>")), "busid \"\"");
  expect(system(cpu("<gpu/>")), "a <gpu> that is not in a <pci>");
  expect(system(cpu("<nvlink count=\"1\"/>")), "a <nvlink> that is not in a <gpu>");
  expect(system(cpu(gpu("0000:01:00.0", "<nvlink count=\"4294967296000\"/>"))), "count");
  expect(system(cpu(gpu("0000:01:00.0", "<nvlink/>"))), "count");
  std::string many;
  for (int i = 0; i < 300; ++i) many += "<cpu numaid=\"" + std::to_string(i) + "\"/>";
  expect(system(many), "more than 256 <cpu>");
  std::string crowd;
  for (int i = 0; i < 1025; ++i) crowd += "<pci busid=\"0000:01:00.0\"/>";
  EXPECT_EQ(text_of_bad(system(cpu(crowd))), "1025 GPUs in one machine; at most 1024 are accepted");
  // And this is an empty machine, not a wrong one.
  EXPECT_TRUE(read_good(system("")).gpus().empty());
}

}  // namespace
}  // namespace xyl::topo
