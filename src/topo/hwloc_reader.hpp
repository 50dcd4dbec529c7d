// SPDX-License-Identifier: BSD-3-Clause
// The machine graph from hwloc: of the machine this runs on, or of an XML that hwloc 2 wrote. No hwloc type leaves
// hwloc_reader.cc. What it makes of the objects:
//
//   GPU, NIC --pcie--> PCIe switch --pcie--> root port --internal--> root complex --internal--> NUMA node
//   NUMA node --memory--> host memory;  NUMA node --internal--> socket --socket_link--> every other socket
//   GPU --nvlink--> GPU, NVSwitch (all of them merged into one), or socket
//
// (drawn upwards; every link is two edges). Downstream ports of a switch are not vertices: their links are the
// edges below it. Bridges without a GPU or a NIC below them are left out. Internal, memory and socket edges have no
// figures: hwloc does not know any.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topo/graph.hpp"

namespace xyl::topo {

// This machine, with hwloc's own view of it. fsroot: where /sys and /proc are looked for; empty: /.
[[nodiscard]] result discover_hwloc(const std::string& fsroot, graph& out);

// rendering: what check_xml() made of the file.
[[nodiscard]] result import_hwloc(const std::string& rendering, graph& out);

// What to tell somebody whose file was written by hwloc 3.
[[nodiscard]] result refuse_hwloc3();

}  // namespace xyl::topo
