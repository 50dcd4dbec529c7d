// SPDX-License-Identifier: BSD-3-Clause
// What the running machine adds to a graph that has its shape already, joined by PCI address: what links can do at
// most (hwloc sees them as trained now, and an idle GPU trains down to Gen1), access control services, address
// translation, BAR1. Whatever is not there or not readable is left as it was.
#pragma once

#include <optional>
#include <string>

#include "topo/graph.hpp"

namespace xyl::topo {

enum class join : std::uint8_t {
  later_wins,  // the graph was discovered here
  fill_gaps,   // the graph is from a file, which is believed where it says something
};

// sys: where /sys is; tests give a folder of their own.
void add_sysfs(graph& g, const std::string& sys, join how);

// Whether a /sys is there and knows PCI devices.
[[nodiscard]] bool has_pci(const std::string& sys);

}  // namespace xyl::topo
