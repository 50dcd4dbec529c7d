// SPDX-License-Identifier: BSD-3-Clause
// What NVIDIA's management library knows: UUIDs, BAR1, MIG, NVLinks, and which pairs the driver refuses
// peer-to-peer. The library is opened at run time; a machine without it is a machine without this knowledge.
// Devices are joined by PCI address, because NVML's order is not CUDA's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "topo/graph.hpp"
#include "topo/live.hpp"

namespace xyl::topo {

struct nvml_link {
  enum class end : std::uint8_t { gpu, nv_switch, other };
  end what = end::other;
  std::optional<pci_address> peer;
  figure rate;  // GB/s of data, one direction
};

struct nvml_device {
  pci_address pci;
  std::string name;
  std::string uuid;
  unsigned sm = 0;
  std::uint64_t bar1_bytes = 0;
  bool mig = false;
  unsigned compute_processes = 0;
  std::vector<nvml_link> links;  // those that are up
};

struct nvml_pair {
  std::size_t from = 0, to = 0;  // indices into devices
  int status = 0;                // NVML's: 0 is fine
};

struct nvml_view {
  std::string driver;
  std::vector<nvml_device> devices;
  std::vector<nvml_pair> refused;  // peer-to-peer reading or writing is not possible
};

// Fails, with the reason, where there is no such library or no driver.
[[nodiscard]] result read_nvml(const char* library, nvml_view& out);

// Devices that the graph does not have are added, with a note: a container may hide them from /sys.
void add_nvml(graph& g, const nvml_view& view, join how);

// What a status of nvml_pair means.
[[nodiscard]] const char* reason_of(int status);

}  // namespace xyl::topo
