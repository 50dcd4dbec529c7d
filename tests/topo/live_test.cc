// SPDX-License-Identifier: BSD-3-Clause
// A /sys made of small files, and NVML's answers made up: what a running machine adds to the graph.
#include "topo/live.hpp"

#include <unistd.h>

#include <filesystem>
#include <map>

#include "topo/acs.hpp"
#include "topo/export.hpp"
#include "topo/machine.hpp"
#include "topo/machines.hpp"
#include "topo/nvml.hpp"
#include "topo/override.hpp"

namespace xyl::topo {
namespace {

namespace fs = std::filesystem;

const char* wrx90 = "wrx90_2xSwitchtec-flat_8xRTXPRO6000_IDLE-gen1.hwloc2.xml";

class made_sys {
 public:
  made_sys() : root_(testing::TempDir() + "/made_sys." + std::to_string(getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_ + "/bus/pci/devices");
  }
  ~made_sys() { fs::remove_all(root_); }

  // above: "pci0000:20" or the address of the port above.
  void add(const std::string& address, const std::string& above, const std::string& speed,
           const std::string& width) {
    folders_[address] = (folders_.count(above) ? folders_[above] : root_ + "/devices/" + above) + "/" + address;
    fs::create_directories(folders_[address]);
    fs::create_directory_symlink(folders_[address], root_ + "/bus/pci/devices/" + address);
    put(address, "max_link_speed", speed + "\n");
    put(address, "max_link_width", width + "\n");
    put(address, "current_link_speed", "2.5 GT/s PCIe\n");
    put(address, "current_link_width", width + "\n");
  }

  void put(const std::string& address, const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(folders_[address] + "/" + file).parent_path());
    std::ofstream(folders_[address] + "/" + file, std::ios::binary) << text;
  }

  const std::string& root() const { return root_; }

 private:
  std::string root_;
  std::map<std::string, std::string> folders_;
};

// A configuration space of 4096 bytes: a list of capabilities with that of PCI Express, and access control services
// as the first of the extended ones.
std::string config_with_acs(unsigned char control) {
  std::string config(4096, '\0');
  config[0x06] = 0x10;
  config[0x34] = 0x40;
  config[0x40] = 0x10;
  config[0x100] = 0x0d;
  config[0x102] = 1;  // version 1, no next
  config[0x106] = static_cast<char>(control);
  return config;
}

struct fixture : testing::Test {
  made_sys sys;
  graph g = machine(wrx90);

  void SetUp() override {
    sys.add("0000:20:01.1", "pci0000:20", "32.0 GT/s PCIe", "16");
    sys.add("0000:21:00.0", "0000:20:01.1", "32.0 GT/s PCIe", "16");
    sys.add("0000:22:00.0", "0000:21:00.0", "32.0 GT/s PCIe", "16");
    sys.add("0000:22:01.0", "0000:21:00.0", "32.0 GT/s PCIe", "8");
    sys.add("0000:23:00.0", "0000:22:00.0", "64.0 GT/s PCIe", "16");
    sys.add("0000:24:00.0", "0000:22:01.0", "32.0 GT/s PCIe", "16");
  }
  const vertex& gpu(int i) { return g.vertices[g.gpus()[static_cast<std::size_t>(i)]]; }
  double between(int i, int j) {
    return find_path(g, g.gpus()[static_cast<std::size_t>(i)], g.gpus()[static_cast<std::size_t>(j)]).write.value;
  }
};

using live = fixture;

TEST_F(live, links_are_what_both_ends_can_do_at_most) {
  // As hwloc sees it where nobody added the maxima: everything idles.
  for (edge& e : g.edges)
    if (e.current.known()) e.write = e.read = {e.current.value, source::nominal, confidence::low};
  EXPECT_NEAR(between(0, 1), 4, 0.1);
  add_sysfs(g, sys.root(), join::later_wins);
  EXPECT_NEAR(between(0, 1), 31.5, 0.1);  // GPU 1's port has 8 lanes
  EXPECT_NEAR(between(0, 2), 4, 0.1);     // GPU 2 is not in this /sys
  EXPECT_EQ(find_path(g, g.gpus()[0], g.gpus()[1]).write.trust, confidence::medium);
}

TEST_F(live, a_file_is_believed_where_it_says_something) {
  add_sysfs(g, sys.root(), join::fill_gaps);
  EXPECT_NEAR(between(0, 1), 63, 0.1);
  for (edge& e : g.edges) e.write = e.read = {};
  add_sysfs(g, sys.root(), join::fill_gaps);
  EXPECT_NEAR(between(0, 1), 31.5, 0.1);
}

TEST_F(live, bar1_and_address_translation) {
  sys.put("0000:23:00.0", "resource",
          "0x00000000a0000000 0x00000000a0ffffff 0x0000000000040200\n"
          "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n");
  sys.put("0000:23:00.0", "iommu_group/type", "DMA-FQ\n");
  sys.put("0000:24:00.0", "iommu_group/type", "identity\n");
  add_sysfs(g, sys.root(), join::later_wins);
  EXPECT_EQ(gpu(0).bar1_bytes, 128ull << 30);
  EXPECT_EQ(gpu(0).iommu_translates, true);
  EXPECT_EQ(gpu(1).iommu_translates, false);
  EXPECT_EQ(gpu(1).bar1_bytes, 0u);
  EXPECT_FALSE(gpu(2).iommu_translates);
}

TEST_F(live, access_control_services) {
  if (!acs_reader::available()) GTEST_SKIP() << "built without libpci";
  sys.put("0000:22:00.0", "config", config_with_acs(0));
  sys.put("0000:22:01.0", "config", config_with_acs(0x1d));
  sys.put("0000:20:01.1", "config", config_with_acs(0));
  add_sysfs(g, sys.root(), join::later_wins);
  const vertex_id chip = [&] {
    for (vertex_id v = 0; v < g.vertices.size(); ++v)
      if (g.vertices[v].pci == pci_address{0, 0x21, 0, 0}) return v;
    return no_vertex;
  }();
  ASSERT_NE(chip, no_vertex);
  EXPECT_EQ(g.vertices[chip].acs_redirect, true);  // one of its two ports does
  for (const vertex& v : g.vertices)
    if (v.kind == vertex_kind::root_port && v.pci->bus == 0x20) {
      EXPECT_EQ(v.acs_redirect, false);
    }

  acs_reader reader(sys.root());
  EXPECT_EQ(reader.redirects({0, 0x22, 1, 0}), true);
  EXPECT_FALSE(reader.redirects({0, 0x77, 0, 0}));
  sys.put("0000:22:01.0", "config", std::string(64, '\0'));  // as users without privileges see it
  EXPECT_FALSE(acs_reader(sys.root()).redirects({0, 0x22, 1, 0}));
  EXPECT_FALSE(acs_reader("/does/not/exist").redirects({0, 0x22, 1, 0}));
}

TEST_F(live, a_device_that_turns_out_to_be_a_nic) {
  graph unknown;
  ASSERT_TRUE(
      import_text(
          "<system><cpu numaid=\"0\"><pci busid=\"0000:23:00.0\"/><pci busid=\"0000:24:00.0\"/></cpu></system>",
          unknown)
          .ok());
  EXPECT_EQ(unknown.gpus().size(), 2u);
  sys.put("0000:23:00.0", "class", "0x020000\n");
  sys.put("0000:24:00.0", "class", "0x030200\n");
  add_sysfs(unknown, sys.root(), join::fill_gaps);
  ASSERT_EQ(unknown.gpus().size(), 1u);
  EXPECT_EQ(unknown.vertices[unknown.gpus()[0]].name, "GPU 0");
  EXPECT_EQ(unknown.vertices[unknown.gpus()[0]].pci->bus, 0x24);
}

TEST_F(live, nonsense_in_the_files_is_no_information) {
  const std::string before = export_json(g);
  for (const char* file : {"max_link_speed", "max_link_width", "current_link_speed", "current_link_width"})
    for (const char* address :
         {"0000:23:00.0", "0000:22:00.0", "0000:21:00.0", "0000:20:01.1", "0000:24:00.0", "0000:22:01.0"})
      sys.put(address, file, "Unknown\n");
  sys.put("0000:23:00.0", "resource", "x\ny z\n");
  add_sysfs(g, sys.root(), join::fill_gaps);
  for (vertex& v : g.vertices) v.iommu_translates.reset();
  EXPECT_EQ(export_json(g), before);
}

figure driver_says(double each) { return {each, source::nominal, confidence::medium}; }

nvml_view two_gpus() {
  nvml_view view;
  // In NVML's order, which need not be that of the addresses.
  view.devices.resize(2);
  view.devices[0].pci = {0, 0x24, 0, 0};
  view.devices[0].uuid = "GPU-b";
  view.devices[0].sm = 120;
  view.devices[0].bar1_bytes = 1ull << 37;
  view.devices[1].pci = {0, 0x23, 0, 0};
  view.devices[1].uuid = "GPU-a";
  view.devices[1].mig = true;
  view.refused.push_back({0, 1, 4});
  return view;
}

TEST_F(live, nvml_is_joined_by_address) {
  add_nvml(g, two_gpus(), join::later_wins);
  EXPECT_EQ(gpu(0).uuid, "GPU-a");
  EXPECT_EQ(gpu(1).uuid, "GPU-b");
  EXPECT_EQ(gpu(1).sm, 120u);
  EXPECT_TRUE(gpu(0).mig);
  const path_finder find(g);
  EXPECT_EQ(name_of(find.find(g.gpus()[1], g.gpus()[0])), "HOST");
  EXPECT_EQ(name_of(find.find(g.gpus()[0], g.gpus()[1])), "PIX");
}

TEST_F(live, nvlinks_of_nvml) {
  nvml_view view = two_gpus();
  view.refused.clear();
  for (nvml_device& d : view.devices) d.links.assign(18, {nvml_link::end::nv_switch, {}, driver_says(25)});
  graph linked = g;
  add_nvml(linked, view, join::later_wins);
  EXPECT_EQ(name_of(find_path(linked, linked.gpus()[0], linked.gpus()[1])), "NV18");
  EXPECT_DOUBLE_EQ(find_path(linked, linked.gpus()[0], linked.gpus()[1]).write.value, 450);
  EXPECT_EQ(name_of(find_path(linked, linked.gpus()[0], linked.gpus()[2])), "PIX");
  // A second time changes nothing.
  const std::string once = export_json(linked);
  add_nvml(linked, view, join::later_wins);
  EXPECT_EQ(export_json(linked), once);

  view.devices[0].links.assign(4, {nvml_link::end::gpu, pci_address{0, 0x23, 0, 0}, driver_says(25)});
  view.devices[1].links.assign(4, {nvml_link::end::gpu, pci_address{0, 0x24, 0, 0}, driver_says(25)});
  add_nvml(g, view, join::later_wins);
  EXPECT_EQ(name_of(find_path(g, g.gpus()[0], g.gpus()[1])), "NV4");
}

// As that machine was exported once, when the driver's word for the rate was not understood.
TEST_F(live, nvlinks_of_a_file_that_does_not_know_their_rate) {
  const char* two = "h200x2-vm-nvlink.json";
  nvml_view view;
  view.devices.resize(2);
  for (std::size_t i : {0u, 1u}) {
    view.devices[i].pci = {0, 0, static_cast<std::uint8_t>(6 + i), 0};
    view.devices[i].links.assign(18, {nvml_link::end::nv_switch, {}, driver_says(25)});
    view.devices[i].links[7].rate = {};
  }
  const auto between = [](const graph& g) { return find_path(g, g.gpus()[0], g.gpus()[1]); };
  for (const join how : {join::later_wins, join::fill_gaps}) {
    graph linked = machine(two);
    ASSERT_FALSE(between(linked).write.known());
    add_nvml(linked, view, how);
    EXPECT_EQ(name_of(between(linked)), "NV18");
    EXPECT_EQ(between(linked).write, (figure{450, source::nominal, confidence::medium}));
    EXPECT_EQ(between(linked).read, between(linked).write);
    // The driver's word again, now of fewer links: at run time it counts, against a file it does not.
    nvml_view later = view;
    for (nvml_device& d : later.devices) d.links.resize(6);
    add_nvml(linked, later, how);
    EXPECT_EQ(name_of(between(linked)), how == join::later_wins ? "NV6" : "NV18");
    EXPECT_EQ(between(linked).write.value, how == join::later_wins ? 150 : 450);
    // A user's number stands.
    ASSERT_TRUE(apply_override(R"({"edges": [{"between": ["GPU 0", "NVSwitch"], "write": 320}]})", linked).ok());
    add_nvml(linked, view, join::later_wins);
    EXPECT_EQ(between(linked).write.value, 320);
  }
}

TEST_F(live, a_gpu_that_sys_does_not_show_is_added_with_a_note) {
  nvml_view view = two_gpus();
  view.devices[0].pci = {0, 0x99, 0, 0};
  const std::size_t notes = g.notes.size();
  add_nvml(g, view, join::later_wins);
  EXPECT_EQ(g.gpus().size(), 9u);
  EXPECT_EQ(g.notes.size(), notes + 1);
  EXPECT_EQ(gpu(8).uuid, "GPU-b");
  graph file = machine(wrx90);
  add_nvml(file, view, join::fill_gaps);
  EXPECT_EQ(file.gpus().size(), 8u);
}

TEST(machine, sources_in_their_order) {
  machine_view view;
  machine_sources sources;
  sources.live = false;
  EXPECT_EQ(read_machine(sources, view).code(), xylInvalidArgument);
  sources.file = machine_path(wrx90);
  ASSERT_TRUE(read_machine(sources, view).ok());
  EXPECT_EQ(view.g.gpus().size(), 8u);
  sources.override_file = testing::TempDir() + "/machine_override." + std::to_string(getpid());
  std::ofstream(sources.override_file) << R"({"pairs": [{"from": "*", "to": "*", "peer_to_peer": false}]})";
  ASSERT_TRUE(read_machine(sources, view).ok());
  EXPECT_EQ(classes(view.g), grouped(8, 1, 8, "", "HOST", ""));
  fs::remove(sources.override_file);
  EXPECT_EQ(read_machine(sources, view).code(), xylSystemError);
}

TEST(machine, this_one_without_sys) {
  machine_sources sources;
  sources.root = testing::TempDir() + "/nothing_here." + std::to_string(getpid());
  sources.nvml.clear();
  fs::create_directories(sources.root);
  machine_view view;
  const result r = read_machine(sources, view);
  fs::remove_all(sources.root);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_FALSE(view.g.notes.empty());
}

}  // namespace
}  // namespace xyl::topo
