// SPDX-License-Identifier: BSD-3-Clause
#include "topo/discovery.hpp"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "topo/built_machines.hpp"
#include "topo/paths.hpp"

namespace xyl::topo::test {
namespace {

using namespace std::chrono_literals;

TEST(discovery, a_machine_that_hangs_is_not_waited_for) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::shared_ptr<const machine_view> view;
  const discovery hanging([released](machine_view& out) {
    released.wait();
    out.g = flat_virtual_machine(3);
    return result();
  });
  const result late = hanging.wait(20ms, view);
  EXPECT_EQ(late.code(), xylTimeout);
  EXPECT_EQ(view, nullptr);
  // Who comes later gets what was read meanwhile.
  release.set_value();
  ASSERT_TRUE(hanging.wait(60s, view).ok());
  EXPECT_EQ(view->g.gpus().size(), 3u);
}

TEST(discovery, failures_are_told_to_everybody_who_asks) {
  std::shared_ptr<const machine_view> view;
  const discovery failing([](machine_view&) -> result { return error(xylSystemError, "no such thing"); });
  const discovery throwing([](machine_view&) -> result { throw std::runtime_error("thrown"); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(failing.wait(60s, view).text(), "no such thing");
    EXPECT_EQ(throwing.wait(60s, view).text(), "thrown");
  }
  EXPECT_EQ(view, nullptr);
}

TEST(discovery, this_machine_is_read_once) {
  std::shared_ptr<const machine_view> first, again;
  ASSERT_TRUE(this_machine().wait(60s, first).ok());
  ASSERT_TRUE(this_machine().wait(60s, again).ok());
  EXPECT_EQ(first, again);
  EXPECT_FALSE(first->g.vertices.empty());
}

TEST(discovery, a_flat_machine_has_its_gpus_at_their_addresses_and_knows_no_link) {
  const graph g = flat_machine({pci_address{0, 7, 0, 0}, pci_address{0, 2, 0, 0}, std::nullopt});
  const std::vector<vertex_id> gpus = g.gpus();
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(g.vertices[gpus[0]].pci->bus, 2);
  const path p = find_path(g, gpus[0], gpus[1]);
  EXPECT_EQ(p.what, path_class::phb);
  EXPECT_FALSE(p.write.known());
}

}  // namespace
}  // namespace xyl::topo::test
