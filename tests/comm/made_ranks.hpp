// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks that are made up, on machines built by hand, for what rank 0 decides.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/planning.hpp"
#include "topo/built_machines.hpp"
#include "topo/json_read.hpp"

namespace xyl::test {

using topo::json;

inline layout workspace(std::size_t ranks) {
  return layout::make(static_cast<std::uint32_t>(ranks), 64, 2 << 20, 16 << 20, 2 << 20);
}

// A communicator's ranks on the GPUs of a graph, as if they had told of themselves.
struct made_ranks {
  std::vector<host_facts> hosts;
  std::vector<device_handle> devices;
  topo::discovery machine;
  parameters wishes;

  // gpu_of_rank: in the order of graph::gpus().
  made_ranks(const topo::graph& g, const std::vector<std::size_t>& gpu_of_rank)
      : machine([g](topo::machine_view& out) {
          out.g = g;
          out.nvml.driver = "580.95";
          return result();
        }) {
    for (std::size_t gpu : gpu_of_rank) {
      const topo::pci_address pci = *g.vertices[g.gpus()[gpu]].pci;
      device_handle h{};
      h.uuid[0] = static_cast<std::uint8_t>(gpu + 1);
      h.pci_domain = static_cast<std::int32_t>(pci.domain);
      h.pci_bus = pci.bus;
      h.pci_device = pci.device;
      devices.push_back(h);
      hosts.push_back({{}, 4711});
    }
  }
  planning_input input() {
    planning_input in{.wishes = wishes, .hosts = hosts, .devices = devices};
    in.device_map = workspace(hosts.size());
    in.max_blocks = 32;
    in.machine = &machine;
    in.nvml = "";
    return in;
  }
  planned decide() {
    planned out;
    const result made = make_choice(input(), out);
    EXPECT_TRUE(made.ok()) << made.text();
    return out;
  }
  std::string refusal() {
    planned out;
    const result made = make_choice(input(), out);
    EXPECT_EQ(made.code(), xylInvalidUsage);
    return made.text();
  }
};

inline json description_of(const planned& p) {
  json d = json::parse(p.description, nullptr, false);
  EXPECT_TRUE(d.is_object());
  return d;
}

inline bool has_note(const json& description, const std::string& part) {
  for (const json& note : description["notes"])
    if (note.get<std::string>().find(part) != std::string::npos) return true;
  return false;
}

// Ranks that are interleaved over two switches.
inline made_ranks interleaved() { return {topo::test::switched({4, 4}, {0, 1}), {0, 4, 1, 5, 2, 6, 3, 7}}; }

}  // namespace xyl::test
