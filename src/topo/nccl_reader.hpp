// SPDX-License-Identifier: BSD-3-Clause
// The machine graph from an NCCL topology file: NCCL_TOPO_FILE, what NCCL_TOPO_DUMP_FILE wrote, what clouds ship,
// and the files of RCCL. Such a file knows neither sockets nor root ports: each <cpu> is a NUMA node, each child of
// it gets a root complex of its own, and everything is trusted little.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "topo/graph.hpp"
#include "topo/xml.hpp"

namespace xyl::topo {

[[nodiscard]] result import_nccl(std::string_view text, const xml_limits& limits, graph& out);

}  // namespace xyl::topo
