// SPDX-License-Identifier: BSD-3-Clause
//
// Over what the ranks' GPUs reach each other, as far as it matters to sync paths: a guarantee is of the weakest
// link of any pair. What is not known is no guarantee.
#pragma once

#include <span>

#include "comm/sync_paths.hpp"
#include "exec/device_side.hpp"
#include "topo/graph.hpp"

namespace xyl {

// g: of this very machine; a graph without the devices' GPUs gives `other`.
sync_link weakest_link(const topo::graph& g, std::span<const device_handle> devices);

}  // namespace xyl
