// SPDX-License-Identifier: BSD-3-Clause
// Reading NVML, with a module of ours in its place: what it says of GPUs, how fast their links are in whichever way
// a driver tells it, and that nothing of it need be there.
#include "topo/nvml.hpp"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "topo/machines.hpp"
#include "topo/nvlink_rate.hpp"

namespace xyl::topo {
namespace {

namespace fs = std::filesystem;

const char* wrx90 = "wrx90_2xSwitchtec-flat_8xRTXPRO6000.hwloc2.xml";

// Where the build puts the module; the tests run in the build folder.
const char* fake_nvml() {
  const char* path = "tests/.libs/fake_nvml.so";
  return fs::exists(path) ? path : nullptr;
}

TEST(nvml, what_it_says_is_read) {
  if (!fake_nvml()) GTEST_SKIP() << "tests/.libs/fake_nvml.so is not here";
  nvml_view view;
  const result r = read_nvml(fake_nvml(), view);
  ASSERT_TRUE(r.ok()) << r.text();
  EXPECT_EQ(view.driver, "999.1");
  ASSERT_EQ(view.devices.size(), 2u);
  const nvml_device& first = view.devices[0];
  EXPECT_EQ(first.pci, (pci_address{0, 0x24, 0, 0}));
  EXPECT_EQ(first.uuid, "GPU-0");
  EXPECT_EQ(first.name, "Fake GPU");
  EXPECT_EQ(first.sm, 90u);
  EXPECT_EQ(first.bar1_bytes, 1ull << 37);
  EXPECT_TRUE(first.mig);
  EXPECT_FALSE(view.devices[1].mig);
  EXPECT_EQ(first.compute_processes, 3u);
  ASSERT_EQ(first.links.size(), 4u);
  EXPECT_EQ(first.links[0].what, nvml_link::end::gpu);
  EXPECT_EQ(first.links[0].peer, (pci_address{0, 0x23, 0, 0}));
  EXPECT_EQ(first.links[0].rate, (figure{25, source::nominal, confidence::low}));
  ASSERT_EQ(view.refused.size(), 1u);
  EXPECT_EQ(view.refused[0].from, 1u);
  EXPECT_EQ(view.refused[0].status, 4);

  graph g = machine(wrx90);
  add_nvml(g, view, join::later_wins);
  EXPECT_EQ(g.vertices[g.gpus()[0]].uuid, "GPU-1");
  EXPECT_EQ(name_of(find_path(g, g.gpus()[1], g.gpus()[0])), "NV4");
  EXPECT_EQ(name_of(find_path(g, g.gpus()[0], g.gpus()[1])), "HOST");
}

// A Hopper whose driver does, or does not, say how fast its links are, and in which of the ways there are.
TEST(nvml, the_rate_of_a_link_and_how_far_it_is_trusted) {
  if (!fake_nvml()) GTEST_SKIP() << "tests/.libs/fake_nvml.so is not here";
  const struct {
    const char* way;
    figure rate;
  } cases[] = {{"link", {25, source::nominal, confidence::medium}},
               {"number", {25, source::nominal, confidence::medium}},
               {"common", {50, source::nominal, confidence::medium}},
               {"version", {25, source::nominal, confidence::low}},
               {"wrong-version", {25, source::nominal, confidence::low}},
               {"nothing", {}}};
  for (const auto& [way, rate] : cases) {
    ASSERT_EQ(setenv("FAKE_NVML_SPEED", way, 1), 0);
    nvml_view view;
    const result r = read_nvml(fake_nvml(), view);
    unsetenv("FAKE_NVML_SPEED");
    ASSERT_TRUE(r.ok()) << r.text();
    ASSERT_EQ(view.devices[0].links.size(), 4u);
    EXPECT_EQ(view.devices[0].links[0].rate, rate) << way << ": " << view.devices[0].links[0].rate.value;
    view.refused.clear();
    graph g = machine(wrx90);
    add_nvml(g, view, join::later_wins);
    const path p = find_path(g, g.gpus()[0], g.gpus()[1]);
    EXPECT_EQ(name_of(p), "NV4") << way;
    EXPECT_EQ(p.write.trust, rate.trust) << way;
    // One link of four is slower there, and holds the others up.
    EXPECT_EQ(p.write.value, way == std::string("link") ? 4 * 19 : 4 * rate.value) << way;
  }
}

TEST(nvml, rates_of_the_generations) {
  EXPECT_EQ(nvlink_rate_of_wire(25.781), 25);  // V100
  EXPECT_EQ(nvlink_rate_of_wire(26.562), 25);  // H200
  EXPECT_EQ(nvlink_rate_of_wire(53.125), 50);  // B200
  EXPECT_EQ(nvlink_rate_of_wire(31), 31);
  EXPECT_EQ(nvlink_rate_of_wire(0), 0);
  EXPECT_EQ(nvlink_rate_of_wire(-1), 0);
  EXPECT_EQ(nvlink_rate_of_wire(1e9), 0);
  EXPECT_EQ(nvlink_rate_of_nvml_version(1), 20);
  EXPECT_EQ(nvlink_rate_of_nvml_version(6), 25);
  EXPECT_EQ(nvlink_rate_of_nvml_version(7), 50);
  EXPECT_EQ(nvlink_rate_of_nvml_version(99), 0);
  EXPECT_EQ(nvlink_rate_of_sm(60), 20);
  EXPECT_EQ(nvlink_rate_of_sm(90), 25);
  EXPECT_EQ(nvlink_rate_of_sm(103), 50);
  EXPECT_EQ(nvlink_rate_of_sm(52), 0);
}

TEST(nvml, without_the_library) {
  nvml_view view;
  const result r = read_nvml("libno-such-library.so.1", view);
  EXPECT_EQ(r.code(), xylSystemError);
  EXPECT_NE(r.text().find("libno-such-library.so.1 is not there"), std::string::npos);
  // A library that is not NVML.
  EXPECT_EQ(read_nvml("libc.so.6", view).code(), xylSystemError);
}

}  // namespace
}  // namespace xyl::topo
