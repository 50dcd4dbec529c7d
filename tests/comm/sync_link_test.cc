// SPDX-License-Identifier: BSD-3-Clause
#include "comm/sync_link.hpp"

#include <gtest/gtest.h>

#include "topo/discovery.hpp"

namespace xyl::test {
namespace {

device_handle device_at(std::uint8_t bus) {
  device_handle h{};
  h.uuid[0] = bus;
  h.pci_bus = bus;
  return h;
}

// GPUs below one root complex, and NVLink between the pairs that are named, in both directions.
topo::graph machine_with(std::initializer_list<std::pair<std::uint8_t, std::uint8_t>> pairs) {
  std::vector<std::optional<topo::pci_address>> gpus;
  for (std::uint8_t bus : {1, 2, 3}) gpus.push_back(topo::pci_address{0, bus, 0, 0});
  topo::graph g = topo::flat_machine(gpus);
  const auto at = [&](std::uint8_t bus) {
    for (topo::vertex_id v : g.gpus())
      if (g.vertices[v].pci == topo::pci_address{0, bus, 0, 0}) return v;
    return topo::no_vertex;
  };
  for (const auto& [a, b] : pairs) g.link(at(a), at(b), topo::edge_kind::nvlink, {}, {});
  return g;
}

TEST(sync_link, is_that_of_the_weakest_pair) {
  const device_handle two[] = {device_at(1), device_at(2)};
  const device_handle three[] = {device_at(1), device_at(2), device_at(3), device_at(1)};
  EXPECT_EQ(weakest_link(machine_with({}), two), sync_link::other);
  EXPECT_EQ(weakest_link(machine_with({{1, 2}}), two), sync_link::nvlink);
  EXPECT_EQ(weakest_link(machine_with({{1, 2}}), three), sync_link::other);
  EXPECT_EQ(weakest_link(machine_with({{1, 2}, {2, 3}, {1, 3}}), three), sync_link::nvlink);
}

TEST(sync_link, ranks_of_one_gpu_need_no_link_and_what_is_not_known_is_none) {
  const device_handle same[] = {device_at(9), device_at(9)}, unknown[] = {device_at(1), device_at(9)};
  EXPECT_EQ(weakest_link(machine_with({}), same), sync_link::one_gpu);
  EXPECT_EQ(weakest_link(machine_with({{1, 2}}), unknown), sync_link::other);
  EXPECT_EQ(weakest_link({}, unknown), sync_link::other);
}

}  // namespace
}  // namespace xyl::test
