// SPDX-License-Identifier: BSD-3-Clause
// hwloc XML made by hand: traps, lies, and this machine.
#include "topo/hwloc_reader.hpp"

#include <gtest/gtest.h>

#include <string>

#include "topo/machines.hpp"

namespace xyl::topo {
namespace {

// A machine of one package with one NUMA node and one processor; devices hang on the package.
std::string machine_with(const std::string& devices, const std::string& behind = "") {
  const std::string sets = " cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\"";
  return "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"" + sets +
         " allowed_cpuset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">\n<object type=\"Package\" "
         "os_index=\"0\"" +
         sets + " gp_index=\"2\">\n<object type=\"NUMANode\" os_index=\"0\"" + sets +
         " gp_index=\"3\" local_memory=\"1024\"/>\n<object type=\"Core\" os_index=\"0\"" + sets +
         " gp_index=\"4\">\n<object type=\"PU\" os_index=\"0\"" + sets + " gp_index=\"5\"/>\n</object>\n" +
         devices + "</object>\n</object>\n" + behind + "</topology>\n";
}

std::string host_bridge(const std::string& inside, int id) {
  return "<object type=\"Bridge\" gp_index=\"" + std::to_string(id) +
         "\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[00-40]\">\n" + inside + "</object>\n";
}

std::string gpu(const std::string& address, int id, const std::string& speed = "63.015385",
                const std::string& inside = "") {
  return "<object type=\"PCIDev\" gp_index=\"" + std::to_string(id) + "\" pci_busid=\"" + address +
         "\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" pci_link_speed=\"" + speed + "\">" + inside +
         "</object>\n";
}

std::string text_of_bad(const std::string& text) {
  graph g;
  const result r = import_text(text, g);
  EXPECT_EQ(r.code(), xylInvalidArgument) << text;
  EXPECT_TRUE(g.vertices.empty());
  return r.text();
}

graph read_good(const std::string& text) {
  graph g;
  const result r = import_text(text, g);
  EXPECT_TRUE(r.ok()) << r.text();
  return g;
}

void expect_line(const std::string& error, const std::string& line, const std::string& what) {
  EXPECT_EQ(error.rfind("line " + line + ": ", 0), 0u) << error;
  EXPECT_NE(error.find(what), std::string::npos) << error;
}

TEST(hwloc_reader, the_smallest_machine) {
  const graph g = read_good(machine_with(host_bridge(gpu("0000:02:00.0", 11) + gpu("0000:01:00.0", 12), 10)));
  ASSERT_EQ(g.gpus().size(), 2u);
  EXPECT_EQ(g.vertices[g.gpus()[0]].pci, (pci_address{0, 1, 0, 0}));
  EXPECT_EQ(g.vertices[g.gpus()[0]].name, "GPU 0");
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "PHB", ""));
  EXPECT_TRUE(read_good(machine_with("")).gpus().empty());
}

TEST(hwloc_reader, duplicate_addresses_are_noted) {
  const graph g = read_good(machine_with(host_bridge(gpu("0000:01:00.0", 11) + gpu("0000:01:00.0", 12), 10)));
  EXPECT_EQ(g.gpus().size(), 2u);
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_NE(g.notes[0].find("0000:01:00.0"), std::string::npos);
  EXPECT_TRUE(g.vertices[g.gpus()[0]].pci);
  EXPECT_FALSE(g.vertices[g.gpus()[1]].pci);
}

TEST(hwloc_reader, a_link_speed_that_is_none) {
  for (const char* speed : {"0.000000", "-1", "nan", "inf", "1e30"}) {
    const graph g = read_good(machine_with(host_bridge(gpu("0000:01:00.0", 11, speed), 10)));
    ASSERT_EQ(g.gpus().size(), 1u);
    for (const edge& e : g.edges) EXPECT_FALSE(e.write.known()) << speed;
  }
}

TEST(hwloc_reader, nvlinks_of_a_matrix) {
  const std::string devices = host_bridge(gpu("0000:01:00.0", 11) + gpu("0000:02:00.0", 12), 10);
  const std::string matrix =
      "<distances2 type=\"PCIDev\" nbobjs=\"2\" kind=\"9\" name=\"NVLinkBandwidth\" indexing=\"gp\">"
      "<indexes length=\"6\">11 12 </indexes><u64values length=\"99\">0 100000 100000 0 </u64values></distances2>";
  const graph g = read_good(machine_with(devices, matrix));
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "NV4", ""));
  EXPECT_DOUBLE_EQ(find_path(g, g.gpus()[0], g.gpus()[1]).write.value, 100);
}

TEST(hwloc_reader, lies_are_refused_with_their_line) {
  const std::string good = machine_with(host_bridge(gpu("0000:01:00.0", 11), 10));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  expect_line(text_of_bad(with("gp_index=\"4\"", "gp_index=\"2\"")), "5", "gp_index 2 is already that of line 3");
  expect_line(text_of_bad(with("gp_index=\"4\"", "gp_index=\"x\"")), "5", "not a number");
  expect_line(text_of_bad(with("type=\"Core\"", "type=\"Kore\"")), "5", "\"Kore\" is not known");
  expect_line(text_of_bad(with("type=\"Core\"", "type=\"Machine\"")), "5", "outermost");
  expect_line(text_of_bad(with("type=\"PU\" os_index=\"0\"", "type=\"PU\" os_index=\"4294967294\"")), "6",
              "at most");
  expect_line(text_of_bad(with("type=\"PU\" os_index=\"0\"", "type=\"PU\"")), "6", "needs os_index");
  expect_line(text_of_bad(with(" cpuset=\"0x1\"", " cpuset=\"0xf...f\"")), "2", "infinite");
  expect_line(text_of_bad(with(" cpuset=\"0x1\"", " cpuset=\"" + std::string(60'000, 'f') + "\"")), "2",
              "characters");
  expect_line(text_of_bad(with(" cpuset=\"0x1\"", " cpuset=\"1 and more\"")), "2", "not a bit mask");
  EXPECT_NE(text_of_bad(machine_with(host_bridge(gpu("0000:00:20.0", 11), 10))).find("not a PCI address"),
            std::string::npos);
  // hwloc ends the process at a mask that begins with a comma.
  for (const char* mask : {",x1", ",0x1", "0x1,x", "0x", "x1", "0x00000000000000001"})
    expect_line(text_of_bad(with(" cpuset=\"0x1\"", std::string(" cpuset=\"") + mask + "\"")), "2",
                "not a bit mask");
  expect_line(text_of_bad(with("pci_link_speed=\"63.015385\"", "")), "9", "needs pci_link_speed");
  expect_line(text_of_bad(with("depth=\"0\"", "depth=\"-1\"")), "8", "depth");
  // A matrix that claims 4 GiB.
  const std::string matrix = "<distances2 type=\"PU\" nbobjs=\"23170\" kind=\"5\" indexing=\"os\"></distances2>";
  EXPECT_NE(text_of_bad(machine_with("", matrix)).find("matrix of \"23170\" objects"), std::string::npos);
  const std::string thin =
      "<distances2 type=\"PU\" nbobjs=\"2\" kind=\"5\" indexing=\"os\"><indexes>0 1</indexes></distances2>";
  EXPECT_NE(text_of_bad(machine_with("", thin)).find("2 indexes and 0 values"), std::string::npos);
}

TEST(hwloc_reader, what_hwloc_itself_refuses_is_an_error_too) {
  EXPECT_FALSE(text_of_bad("<topology version=\"2.0\"></topology>").empty());
}

// A comment hides an object from XML but not from a parser that looks for brackets only.
TEST(hwloc_reader, hwloc_sees_what_was_checked) {
  const std::string hidden = "<!-- " + std::string("<object type=\"PU\">") + " -->";
  EXPECT_EQ(read_good(machine_with(hidden + host_bridge(gpu("0000:01:00.0", 11), 10))).gpus().size(), 1u);
  const std::string data = "<info name=\"a\" value=\"&lt;object type=&quot;PU&quot;>&#10;&amp;\"/>";
  EXPECT_EQ(read_good(machine_with(host_bridge(gpu("0000:01:00.0", 11, "1.0", data), 10))).gpus().size(), 1u);
}

// Four NUMA nodes in two packages, one root complex at each of: a NUMA node, a package, the machine.
TEST(hwloc_reader, where_root_complexes_hang) {
  const auto sets = [](const std::string& processors, const std::string& nodes) {
    return " cpuset=\"" + processors + "\" complete_cpuset=\"" + processors + "\" nodeset=\"" + nodes +
           "\" complete_nodeset=\"" + nodes + "\" ";
  };
  int id = 100;
  const auto bridge = [&](const std::string& address) {
    const int bridge_id = id++;
    return host_bridge(gpu(address, id++), bridge_id);
  };
  const auto node = [&](int i, const std::string& devices) {
    const std::string one = sets("0x" + std::to_string(1 << i), "0x" + std::to_string(1 << i));
    return "<object type=\"Group\"" + one + "gp_index=\"" + std::to_string(10 + 3 * i) +
           "\" kind=\"1\" subkind=\"0\"><object type=\"NUMANode\" os_index=\"" + std::to_string(i) + "\"" + one +
           "gp_index=\"" + std::to_string(11 + 3 * i) +
           "\" local_memory=\"1024\"/><object type=\"PU\" os_index=\"" + std::to_string(i) + "\"" + one +
           "gp_index=\"" + std::to_string(12 + 3 * i) + "\"/>" + devices + "</object>";
  };
  const std::string text =
      "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"" + sets("0xf", "0xf") +
      "allowed_cpuset=\"0xf\" allowed_nodeset=\"0xf\" gp_index=\"1\">" + "<object type=\"Package\" os_index=\"0\"" +
      sets("0x3", "0x3") + "gp_index=\"2\">" + node(0, bridge("0000:01:00.0") + bridge("0000:02:00.0")) +
      node(1, bridge("0000:03:00.0")) + bridge("0000:04:00.0") +
      "</object><object type=\"Package\" os_index=\"1\"" + sets("0xc", "0xc") + "gp_index=\"3\">" + node(2, "") +
      node(3, bridge("0000:05:00.0")) + "</object>" + bridge("0000:06:00.0") + "</object></topology>";
  const graph g = read_good(text);
  EXPECT_EQ(classes(g), (std::vector<std::string>{
                            "LOC NODE SYS NODE SYS NODE",   // node 0
                            "NODE LOC SYS NODE SYS NODE",   // node 0
                            "SYS SYS LOC NODE SYS SYS",     // node 1
                            "NODE NODE NODE LOC SYS NODE",  // package 0
                            "SYS SYS SYS SYS LOC SYS",      // node 3
                            "NODE NODE SYS NODE SYS LOC",   // nobody knows: taken as node 0
                        }));
  ASSERT_EQ(g.notes.size(), 1u);
  EXPECT_NE(g.notes[0].find("taken as NUMA node 0"), std::string::npos) << g.notes[0];
  const path_finder find(g);
  for (vertex_id v : g.gpus()) EXPECT_NE(find.nearest_memory(v), no_vertex);
}

TEST(hwloc_reader, this_machine) {
  graph g;
  const result r = discover_hwloc("", g);
  ASSERT_TRUE(r.ok()) << r.text();
  unsigned memories = 0;
  for (const vertex& v : g.vertices) memories += v.kind == vertex_kind::host_memory;
  EXPECT_GE(memories, 1u);
  const path_finder find(g);
  for (vertex_id a : g.gpus()) EXPECT_NE(find.nearest_memory(a), no_vertex);
}

}  // namespace
}  // namespace xyl::topo
