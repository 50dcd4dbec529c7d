// SPDX-License-Identifier: BSD-3-Clause
#include "comm/sync_link.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "topo/paths.hpp"

namespace xyl {

sync_link weakest_link(const topo::graph& g, std::span<const device_handle> devices) {
  const bool one_gpu = std::all_of(devices.begin(), devices.end(), [&](const device_handle& h) {
    return std::memcmp(h.uuid, devices.front().uuid, sizeof h.uuid) == 0;
  });
  if (one_gpu) return sync_link::one_gpu;
  std::vector<topo::vertex_id> used;
  const std::vector<topo::vertex_id> gpus = g.gpus();
  for (const device_handle& h : devices) {
    const topo::pci_address at{static_cast<std::uint32_t>(h.pci_domain), static_cast<std::uint8_t>(h.pci_bus),
                               static_cast<std::uint8_t>(h.pci_device), 0};
    const auto found =
        std::find_if(gpus.begin(), gpus.end(), [&](topo::vertex_id v) { return g.vertices[v].pci == at; });
    if (found == gpus.end()) return sync_link::other;
    if (std::find(used.begin(), used.end(), *found) == used.end()) used.push_back(*found);
  }
  const topo::path_finder finder(g);
  for (topo::vertex_id from : used)
    for (topo::vertex_id to : used)
      if (from != to && finder.find(from, to).what != topo::path_class::nv) return sync_link::other;
  return sync_link::nvlink;
}

}  // namespace xyl
