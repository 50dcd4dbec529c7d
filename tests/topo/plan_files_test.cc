// SPDX-License-Identifier: BSD-3-Clause
// Plans of every machine file that the readers can load: what must hold on all of them, and what is known of some.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "topo/built_machines.hpp"
#include "topo/describe.hpp"
#include "topo/export.hpp"
#include "topo/machines.hpp"
#include "topo/plan_assertions.hpp"

namespace xyl::topo::test {
namespace {

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename(); }

void expect_byte_stable(const graph& g) {
  const std::string text = export_json(g);
  graph back;
  const result r = import_json(text, back);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_EQ(export_json(back), text);
  EXPECT_EQ(describe_text(plan_of(back)), describe_text(plan_of(g)));
}

unsigned expect_sound_files(const std::vector<std::string>& paths) {
  unsigned planned = 0;
  for (const std::string& path : paths) {
    graph g;
    if (!import_file(path.c_str(), g).ok() || g.gpus().empty()) continue;
    expect_sound(g, file_name(path));
    SCOPED_TRACE(file_name(path));
    expect_byte_stable(g);
    ++planned;
  }
  return planned;
}

TEST(plan_files, of_the_project_are_sound) {
  EXPECT_GE(expect_sound_files(files_in(machine_path(""), ".xml")), 15u);
}

TEST(plan_files, of_more_machines_are_sound) {
  if (more_machines().empty()) GTEST_SKIP() << "XYLEM_TOPOLOGY_DIR names no folder with more machines";
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(more_machines()))
    if (entry.path().extension() == ".xml") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  EXPECT_GE(expect_sound_files(paths), 1u);
}

TEST(plan_files, an_idle_machine_is_planned_as_a_busy_one) {
  const std::string name = "wrx90_2xSwitchtec-flat_8xRTXPRO6000";
  for (const char* format : {".hwloc2.xml", ".nccl.xml"})
    EXPECT_EQ(in_terms_of_hardware(plan_of(machine(name + "_IDLE-gen1" + format))),
              in_terms_of_hardware(plan_of(machine(name + format))))
        << format;
}

TEST(plan_files, both_formats_of_a_machine_give_the_same_rings_and_winners) {
  for (const char* name :
       {"asus-esc8000a-e13p_2xTurin_2xPEX890xx-2VS_8xRTXPRO6000", "dual-turin_direct-attach_8xRTXPRO6000",
        "dual-genoa_direct-attach_mixed-x16-x8-x4_8x5090", "wrx90_2xSwitchtec-flat_8xRTXPRO6000",
        "kvm-q35-rootports-gen1x1_8xRTXPRO6000"}) {
    const plan hwloc = plan_of(machine(std::string(name) + ".hwloc2.xml"));
    const plan nccl = plan_of(machine(std::string(name) + ".nccl.xml"));
    EXPECT_EQ(hwloc.rings, nccl.rings) << name;
    for (std::uint64_t bytes : {1024ull, 65536ull, 1ull << 20, 64ull << 20})
      EXPECT_EQ(name_of(hwloc.find(pattern::all_reduce)->winner(bytes)),
                name_of(nccl.find(pattern::all_reduce)->winner(bytes)))
          << name << " at " << bytes;
  }
}

TEST(plan_files, a_flat_virtual_machine_equals_one_switch) {
  const plan flat = plan_of(machine("kvm-q35-rootports-gen1x1_8xRTXPRO6000.hwloc2.xml"));
  const plan one = plan_of(one_switch(8, nominal(gen5_x16)));
  EXPECT_EQ(flat.rings, one.rings);
  ASSERT_EQ(flat.islands.size(), 1u);
  EXPECT_NEAR(flat.ring_rate, one.ring_rate, 0.1);
}

// One card on four lanes drags the ring down to itself.
TEST(plan_files, the_slowest_card_bounds_the_ring) {
  const plan p = plan_of(machine("dual-genoa_direct-attach_mixed-x16-x8-x4_8x5090.hwloc2.xml"));
  EXPECT_NEAR(p.ring_rate, gen5_x16 / 4 * cost_constants().pcie_store_share, 0.2);
}

TEST(plan_files, nvlink_decides_where_it_is) {
  const plan p = plan_of(machine("h200x2-vm-nvlink.nccl.xml"));
  EXPECT_NEAR(p.ring_rate, 450 * cost_constants().nvlink_share, 1);
  EXPECT_FALSE(p.host_staged);
}

}  // namespace
}  // namespace xyl::topo::test
