// SPDX-License-Identifier: BSD-3-Clause
// Each finding appears with what causes it, says what it saw, and is silent without it.
#include "topo/advice.hpp"

#include <functional>

#include "topo/machines.hpp"
#include "topo/override.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

const char* wrx90 = "wrx90_2xSwitchtec-flat_8xRTXPRO6000.hwloc2.xml";

const finding* find_titled(const std::vector<finding>& all, const std::string& title) {
  for (const finding& f : all)
    if (f.title.find(title) != std::string::npos) return &f;
  return nullptr;
}

// The one new finding that a change brings.
finding finding_after(const std::string& title, const std::function<void(graph&, surroundings&)>& change) {
  graph g = machine(wrx90);
  surroundings about;
  EXPECT_EQ(find_titled(find_advice(g, about), title), nullptr) << title;
  change(g, about);
  const std::vector<finding> found = find_advice(g, about);
  const finding* f = find_titled(found, title);
  EXPECT_NE(f, nullptr) << title;
  if (!f) return {};
  EXPECT_FALSE(f->evidence.empty());
  EXPECT_FALSE(f->fix.empty());
  return *f;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

vertex& first_of(graph& g, vertex_kind kind) {
  return *std::find_if(g.vertices.begin(), g.vertices.end(), [&](const vertex& v) { return v.kind == kind; });
}

TEST(advice, nothing_to_say_of_a_good_machine) { EXPECT_TRUE(find_advice(machine(wrx90), {}).empty()); }

TEST(advice, acs) {
  const finding f = finding_after(
      "ACS redirect", [](graph& g, surroundings&) { first_of(g, vertex_kind::pci_switch).acs_redirect = true; });
  EXPECT_EQ(f.how_much, weight::costly);
  EXPECT_TRUE(says(f.evidence, "0000:21:00.0")) << f.evidence;
  EXPECT_TRUE(says(f.fix, "setpci"));
  const finding unread = finding_after("ACS could not be read", [](graph&, surroundings& s) { s.live = true; });
  EXPECT_EQ(unread.how_much, weight::unknown);
  graph read = machine(wrx90);
  first_of(read, vertex_kind::root_port).acs_redirect = false;
  surroundings live;
  live.live = true;
  EXPECT_TRUE(find_advice(read, live).empty());
}

TEST(advice, iommu) {
  const finding f =
      finding_after("IOMMU", [](graph& g, surroundings&) { g.vertices[g.gpus()[3]].iommu_translates = true; });
  EXPECT_TRUE(says(f.evidence, "GPU 3"));
  EXPECT_TRUE(says(f.fix, "iommu=pt"));
}

TEST(advice, links_below_their_maximum) {
  const std::vector<finding> found =
      find_advice(machine("wrx90_2xSwitchtec-flat_8xRTXPRO6000_IDLE-gen1.hwloc2.xml"), {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(says(found[0].evidence, "GPU 0 (0000:23:00.0): 4.0 of 63.0 GB/s")) << found[0].evidence;
  EXPECT_TRUE(says(found[0].fix, "under load"));
}

TEST(advice, bar1) {
  const finding f =
      finding_after("BAR1", [](graph& g, surroundings&) { g.vertices[g.gpus()[1]].bar1_bytes = 256u << 20; });
  EXPECT_TRUE(says(f.evidence, "GPU 1 (0000:24:00.0): 256 MiB")) << f.evidence;
  graph large = machine(wrx90);
  for (vertex_id v : large.gpus()) large.vertices[v].bar1_bytes = 1ull << 37;
  EXPECT_TRUE(find_advice(large, {}).empty());
}

TEST(advice, staged_through_system_memory) {
  const finding f = finding_after("staged through system memory", [](graph& g, surroundings& s) {
    const std::vector<vertex_id> gpus = g.gpus();
    pair_of(g, gpus[0], gpus[1]).peer_to_peer = false;
    pair_of(g, gpus[0], gpus[7]).peer_to_peer = false;
    pair_of(g, gpus[1], gpus[0]).peer_to_peer = true;
    s.nvml.refused.push_back({0, 1, 4});
  });
  EXPECT_TRUE(says(f.evidence, "2 of 56 ordered pairs")) << f.evidence;
  EXPECT_TRUE(says(f.evidence, "(GPU 0 to GPU 1, GPU 0 to GPU 7)")) << f.evidence;
  EXPECT_TRUE(says(f.evidence, "1 of them PIX"));
  EXPECT_TRUE(says(f.evidence, "1 of them NODE"));
  EXPECT_TRUE(says(f.evidence, "a driver setting"));
}

TEST(advice, slow_cards_and_mixed_sockets) {
  const std::vector<finding> found =
      find_advice(machine("dual-genoa_direct-attach_mixed-x16-x8-x4_8x5090.hwloc2.xml"), {});
  const finding* slow = find_titled(found, "Slow cards");
  ASSERT_NE(slow, nullptr);
  EXPECT_TRUE(says(slow->evidence, "GPU 2 (0000:41:00.0): 31.5 GB/s, GPU 3 (0000:61:00.0): 15.8 GB/s"));
  const finding* mixed = find_titled(found, "several sockets");
  ASSERT_NE(mixed, nullptr);
  EXPECT_TRUE(says(mixed->evidence, "32 of 56"));
  EXPECT_TRUE(says(mixed->fix, "CUDA_VISIBLE_DEVICES=4,5,6,7 numactl --cpunodebind=1 --membind=1")) << mixed->fix;
  EXPECT_TRUE(says(slow->fix, "lspci -vv -s 0000:41:00.0 | grep Lnk")) << slow->fix;
  EXPECT_TRUE(says(slow->fix, "CUDA_VISIBLE_DEVICES=0,1,4,5,6,7")) << slow->fix;
  EXPECT_EQ(&found.front(), slow) << "the costliest comes first";
  const finding one = finding_after("One slow card", [](graph& g, surroundings&) {
    ASSERT_TRUE(apply_override(R"({"edges": [{"between": ["0000:21:00.0", "GPU 2"], "write": 15}]})", g).ok());
  });
  EXPECT_TRUE(says(one.evidence, "GPU 2"));
}

TEST(advice, mig) {
  const finding f = finding_after("MIG", [](graph& g, surroundings&) { g.vertices[g.gpus()[5]].mig = true; });
  EXPECT_TRUE(says(f.evidence, "GPU 5"));
  EXPECT_TRUE(
      says(f.fix, "nvidia-smi -i " + name_of(*machine(wrx90).vertices[machine(wrx90).gpus()[5]].pci) + " -mig 0"));
}

TEST(advice, shared_without_mps) {
  const auto share = [](surroundings& s) {
    s.nvml.devices.resize(1);
    s.nvml.devices[0].pci = {0, 0x23, 0, 0};
    s.nvml.devices[0].compute_processes = 4;
  };
  const finding f = finding_after("without MPS", [&](graph&, surroundings& s) { share(s); });
  EXPECT_TRUE(says(f.evidence, "0000:23:00.0: 4 processes"));
  surroundings with;
  share(with);
  with.mps_running = true;
  EXPECT_TRUE(find_advice(machine(wrx90), with).empty());
}

TEST(advice, an_empty_machine) { EXPECT_TRUE(find_advice(graph(), {}).empty()); }

}  // namespace
}  // namespace xyl::topo
