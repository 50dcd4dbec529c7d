// SPDX-License-Identifier: BSD-3-Clause
// What every machine must look like: the classes that `nvidia-smi topo -m` would print there, and what limits them.
#include "topo/machines.hpp"

#include <map>
#include <set>

#include "topo/export.hpp"

namespace xyl::topo {
namespace {

const std::string asus = "asus-esc8000a-e13p_2xTurin_2xPEX890xx-2VS_8xRTXPRO6000";
const std::string genoa = "dual-genoa_direct-attach_mixed-x16-x8-x4_8x5090";
const std::string turin = "dual-turin_direct-attach_8xRTXPRO6000";
const std::string kvm = "kvm-q35-rootports-gen1x1_8xRTXPRO6000";
const std::string wrx90 = "wrx90_2xSwitchtec-flat_8xRTXPRO6000";

constexpr double gen5_x16 = 32.0 * 128 / 130 / 8 * 16;

TEST(machines, classes_are_those_of_nvidia_smi) {
  const std::map<std::string, std::vector<std::string>> expected = {
      {asus, grouped(8, 2, 4, "PIX", "NODE", "SYS")},
      {genoa, grouped(8, 1, 4, "", "NODE", "SYS")},
      {turin, grouped(8, 1, 4, "", "NODE", "SYS")},
      {wrx90, grouped(8, 4, 8, "PIX", "NODE", "")},
      {wrx90 + "_IDLE-gen1", grouped(8, 4, 8, "PIX", "NODE", "")},
  };
  for (const auto& [name, rows] : expected)
    for (const char* format : {".hwloc2.xml", ".nccl.xml"}) {
      const graph g = machine(name + format);
      EXPECT_EQ(classes(g), rows) << name << format;
      EXPECT_TRUE(g.notes.empty()) << name << format << ": " << g.notes.front();
    }
}

// NCCL's file has no root ports and no host bridge: each child of a <cpu> counts as a root complex of its own.
TEST(machines, virtual_machine_with_root_ports) {
  EXPECT_EQ(classes(machine(kvm + ".hwloc2.xml")), grouped(8, 1, 8, "", "PHB", ""));
  EXPECT_EQ(classes(machine(kvm + ".nccl.xml")), grouped(8, 1, 8, "", "NODE", ""));
}

TEST(machines, gen1_x1_of_virtual_ports_limits_nothing) {
  for (const char* format : {".hwloc2.xml", ".nccl.xml"}) {
    const graph g = machine(kvm + format);
    const path_finder find(g);
    const std::vector<vertex_id> gpus = g.gpus();
    const path p = find.find(gpus[0], gpus[7]);
    EXPECT_NEAR(p.write.value, gen5_x16, 0.1) << format;
    EXPECT_EQ(p.write.trust, confidence::low) << format;
    for (const vertex& v : g.vertices)
      if (v.pci && v.pci->bus == 0) {
        EXPECT_EQ(v.kind, vertex_kind::root_port) << format << v.name;
      }
  }
}

TEST(machines, two_gpus_of_a_virtual_machine_linked_by_nvlink) {
  const graph nccl = machine("h200x2-vm-nvlink.nccl.xml");
  EXPECT_EQ(classes(nccl), grouped(2, 1, 2, "", "NV18", ""));
  const path p = find_path(nccl, nccl.gpus()[0], nccl.gpus()[1]);
  EXPECT_EQ(p.nvlinks, 18u);
  EXPECT_DOUBLE_EQ(p.write.value, 450);
  EXPECT_EQ(p.hops, 2u);
  EXPECT_EQ(nccl.vertices[nccl.gpus()[0]].sm, 90u);
  // A width of 0 is no information: PCIe is there, of unknown capacity.
  EXPECT_FALSE(path_finder(nccl).find_without_nvlink(nccl.gpus()[0], nccl.gpus()[1]).write.known());

  const graph hwloc = machine("h200x2-vm-nvlink.hwloc2.xml");
  EXPECT_EQ(classes(hwloc), grouped(2, 1, 2, "", "PHB", ""));
  EXPECT_EQ(find_path(hwloc, hwloc.gpus()[0], hwloc.gpus()[1]).write.trust, confidence::low);
}

// As this library found it there, with NVML, when it could count the links and did not understand how fast they
// are.
TEST(machines, two_gpus_linked_by_nvlink_as_they_were_exported) {
  const graph g = machine("h200x2-vm-nvlink.json");
  EXPECT_EQ(classes(g), grouped(2, 1, 2, "", "NV18", ""));
  const path p = find_path(g, g.gpus()[0], g.gpus()[1]);
  EXPECT_EQ(p.nvlinks, 18u);
  EXPECT_FALSE(p.write.known());
  EXPECT_EQ(g.vertices[g.gpus()[1]].sm, 90u);
  EXPECT_EQ(path_finder(g).find_without_nvlink(g.gpus()[0], g.gpus()[1]).write.trust, confidence::low);
}

TEST(machines, one_gpu_of_a_virtual_machine) {
  EXPECT_EQ(classes(machine("h200-vm-flat.hwloc2.xml")), std::vector<std::string>{"LOC"});
}

TEST(machines, an_idle_link_counts_as_what_it_can_do) {
  const graph busy = machine(wrx90 + ".hwloc2.xml");
  const graph idle = machine(wrx90 + "_IDLE-gen1.hwloc2.xml");
  ASSERT_EQ(busy.edges.size(), idle.edges.size());
  unsigned idle_links = 0;
  for (std::size_t e = 0; e < busy.edges.size(); ++e) {
    EXPECT_EQ(busy.edges[e].write, idle.edges[e].write);
    EXPECT_EQ(busy.edges[e].read, idle.edges[e].read);
    idle_links += idle.edges[e].current.known() && idle.edges[e].current.value < 5;
  }
  EXPECT_EQ(idle_links, 16u);  // eight GPUs, both directions
}

TEST(machines, the_narrow_card_limits_its_pairs_and_no_others) {
  for (const char* format : {".hwloc2.xml", ".nccl.xml"}) {
    const graph g = machine(genoa + format);
    const std::vector<vertex_id> gpus = g.gpus();
    const path_finder find(g);
    for (std::size_t i = 0; i < gpus.size(); ++i)
      for (std::size_t j = 0; j < gpus.size(); ++j) {
        if (i == j) continue;
        const double share = i == 3 || j == 3 ? 4 : i == 2 || j == 2 ? 2 : 1;
        EXPECT_NEAR(find.find(gpus[i], gpus[j]).write.value, gen5_x16 / share, 0.1) << format << i << j;
        EXPECT_NEAR(find.find(gpus[i], gpus[j]).read.value, gen5_x16 / share, 0.1) << format << i << j;
      }
  }
}

// GPU, switch, root port, root complex, NUMA node, and the same down again.
TEST(machines, edges_of_a_way_follow_each_other) {
  const graph g = machine(asus + ".hwloc2.xml");
  const path_finder find(g);
  const std::vector<vertex_id> gpus = g.gpus();
  EXPECT_EQ(find.find(gpus[0], gpus[1]).hops, 2u);
  EXPECT_EQ(find.find(gpus[0], gpus[2]).hops, 8u);
  for (vertex_id from : gpus)
    for (vertex_id to : gpus) {
      vertex_id at = from;
      for (std::uint32_t e : find.find(from, to).edges) {
        EXPECT_EQ(g.edges[e].from, at);
        at = g.edges[e].to;
      }
      EXPECT_EQ(at, to);
    }
}

TEST(machines, every_one_survives_export_and_import) {
  std::vector<std::string> paths = files_in(source_folder() + "/tests/topo/machines", ".xml");
  ASSERT_EQ(paths.size(), 15u);
  for (const char* exported : {"h200x2-vm-nvlink.json", "h200x2-vm-nvlink.probed.json"})
    paths.push_back(machine_path(exported));
  for (const std::string& path : paths) {
    const std::string text = export_json(import_good(path));
    graph again;
    const result r = import_text(text, again);
    ASSERT_TRUE(r.ok()) << r.text();
    EXPECT_EQ(export_json(again), text) << path;
  }
}

TEST(more_machines, hwloc_files) {
  if (more_machines().empty()) GTEST_SKIP() << "XYLEM_TOPOLOGY_DIR is not set";
  const graph dgx2 = import_good(more_machines() + "/hwloc/nvidiaDGX2.xml");
  EXPECT_EQ(classes(dgx2), grouped(16, 1, 16, "", "NV6", ""));
  const std::vector<vertex_id> gpus = dgx2.gpus();
  const path_finder find(dgx2);
  EXPECT_DOUBLE_EQ(find.find(gpus[0], gpus[15]).write.value, 150);
  EXPECT_EQ(name_of(find.find_without_nvlink(gpus[0], gpus[1])), "PIX");
  EXPECT_EQ(name_of(find.find_without_nvlink(gpus[0], gpus[2])), "PXB");
  EXPECT_EQ(name_of(find.find_without_nvlink(gpus[0], gpus[4])), "NODE");
  EXPECT_EQ(name_of(find.find_without_nvlink(gpus[0], gpus[8])), "SYS");
  EXPECT_EQ(dgx2.vertices[gpus[0]].uuid, "GPU-d3977428-7a30-086b-2e20-5c1eeed647c6");

  const graph power8 = import_good(more_machines() + "/hwloc/power8gpudistances.xml");
  EXPECT_EQ(classes(power8), grouped(4, 2, 4, "NV2", "SYS", ""));
  EXPECT_EQ(power8.vertices[power8.gpus()[2]].pci, (pci_address{0x000a, 1, 0, 0}));

  EXPECT_EQ(classes(import_good(more_machines() + "/hwloc/24em64t-2n6c2t-pci.xml")),
            (std::vector<std::string>{"LOC SYS SYS", "SYS LOC PHB", "SYS PHB LOC"}));
  EXPECT_TRUE(import_good(more_machines() + "/hwloc/16intel64-manyVFs.xml").gpus().empty());
}

TEST(more_machines, hwloc_3_is_refused_with_the_way_out) {
  if (more_machines().empty()) GTEST_SKIP() << "XYLEM_TOPOLOGY_DIR is not set";
  for (const std::string& path : files_in(more_machines() + "/hwloc3", ".xml")) {
    graph g;
    const result r = import_file(path.c_str(), g);
    EXPECT_EQ(r.code(), xylInvalidArgument);
    EXPECT_NE(r.text().find("hwloc 3"), std::string::npos) << r.text();
    EXPECT_NE(r.text().find("lstopo --export-xml-flags v2"), std::string::npos) << r.text();
  }
}

TEST(more_machines, nccl_files) {
  if (more_machines().empty()) GTEST_SKIP() << "XYLEM_TOPOLOGY_DIR is not set";
  const std::string folder = more_machines() + "/nccl/";
  EXPECT_EQ(classes(import_good(folder + "aws_p4d-24xl-topo.xml")), grouped(8, 2, 4, "PIX", "NODE", "SYS"));
  EXPECT_EQ(classes(import_good(folder + "azure_ndv4-topo.xml")), grouped(8, 2, 8, "PIX", "SYS", ""));
  EXPECT_EQ(classes(import_good(folder + "rccl_topo_8p_rome_pcie.xml")), grouped(8, 1, 4, "", "NODE", "SYS"));
  EXPECT_EQ(classes(import_good(folder + "rccl_topo_8p_pcie.xml")), grouped(8, 4, 8, "PXB", "NODE", ""));
  EXPECT_EQ(classes(import_good(folder + "rccl_topo_8p_rome_vm1.xml")), grouped(8, 4, 8, "NV1", "SYS", ""));
  EXPECT_EQ(classes(import_good(folder + "rccl_topo_4p3l.xml")), grouped(4, 4, 4, "NV1", "", ""));
  EXPECT_EQ(classes(import_good(folder + "rccl_topo_3p_pcie.xml")),
            (std::vector<std::string>{"LOC SYS SYS", "SYS LOC NODE", "SYS NODE LOC"}));
  // Links that lead to the GPU itself are no links.
  const graph ncv4 = import_good(folder + "azure_ncv4-topo.xml");
  EXPECT_EQ(classes(ncv4), grouped(4, 1, 4, "", "SYS", ""));
  EXPECT_EQ(ncv4.notes.size(), 4u);
  // Nine devices and not a word about what they are.
  const graph g5 = import_good(folder + "aws_g5.48xl-topo.xml");
  EXPECT_EQ(g5.gpus().size(), 9u);
  EXPECT_EQ(g5.notes.size(), 1u);
}

TEST(more_machines, every_one_survives_export_and_import) {
  if (more_machines().empty()) GTEST_SKIP() << "XYLEM_TOPOLOGY_DIR is not set";
  for (const char* folder : {"/hwloc", "/nccl"})
    for (const std::string& path : files_in(more_machines() + folder, ".xml")) {
      const std::string text = export_json(import_good(path));
      graph again;
      const result r = import_text(text, again);
      ASSERT_TRUE(r.ok()) << r.text();
      EXPECT_EQ(export_json(again), text) << path;
    }
}

}  // namespace
}  // namespace xyl::topo
