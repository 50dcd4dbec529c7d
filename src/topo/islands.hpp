// SPDX-License-Identifier: BSD-3-Clause
// Which GPUs are near each other: partitions of a set of GPUs from fine to coarse (the same GPU, NVLink group,
// switch, root complex, NUMA node, socket, node). Levels that say nothing new are left out; the node is always
// last. Inside an island traffic leaves no switch, root complex or socket that the level is named after.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo {

enum class island_kind : std::uint8_t { gpu, nvlink, pci_switch, root_complex, numa_node, socket, node };
[[nodiscard]] const char* name_of(island_kind kind);

struct island_level {
  island_kind kind = island_kind::node;
  std::uint16_t count = 0;               // islands
  std::vector<std::uint16_t> of_member;  // which island each member is in, numbered in order of first appearance

  [[nodiscard]] std::vector<std::vector<std::uint16_t>> members() const;
  // All islands have the same number of members, and there are several islands of several members.
  [[nodiscard]] bool regular() const;
};

// gpus: of each member, in the order that plans use; a GPU may appear several times.
[[nodiscard]] std::vector<island_level> find_islands(const graph& g, std::span<const vertex_id> gpus);

// For each member the PCIe switch fabric above it (joined switches count once, numbered in order of appearance), or
// no_switch: the GPUs that a write collapse concerns together.
inline constexpr std::uint16_t no_switch = 0xffff;
[[nodiscard]] std::vector<std::uint16_t> switch_of_members(const graph& g, std::span<const vertex_id> gpus);

}  // namespace xyl::topo
