// SPDX-License-Identifier: BSD-3-Clause
// Every function may be missing (older drivers) or fail (virtual machines), each for itself.
#include "topo/nvml.hpp"

#include "topo/nvml_library.hpp"
#include "topo/nvml_links.hpp"

namespace xyl::topo {
namespace {

using namespace nvml_api;

struct bar1_memory {
  unsigned long long total, free, used;
};
constexpr int capability_read = 0, capability_write = 1;

bool read_device(const library& nvml, device_handle device, nvml_device& out) {
  pci_info info{};
  if (nvml.call<int(device_handle, pci_info*)>("nvmlDeviceGetPciInfo_v3", device, &info) != success) return false;
  const std::optional<pci_address> address = address_of(info);
  if (!address) return false;
  out.pci = *address;
  char text[96] = {};
  if (nvml.call<int(device_handle, char*, unsigned)>("nvmlDeviceGetUUID", device, text, sizeof text) == success)
    out.uuid = text;
  if (nvml.call<int(device_handle, char*, unsigned)>("nvmlDeviceGetName", device, text, sizeof text) == success)
    out.name = text;
  int major = 0, minor = 0;
  if (nvml.call<int(device_handle, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) ==
      success)
    out.sm = static_cast<unsigned>(10 * major + minor);
  bar1_memory bar1{};
  if (nvml.call<int(device_handle, bar1_memory*)>("nvmlDeviceGetBAR1MemoryInfo", device, &bar1) == success)
    out.bar1_bytes = bar1.total;
  unsigned current = 0, pending = 0;
  if (nvml.call<int(device_handle, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &current, &pending) ==
      success)
    out.mig = current == 1;
  // Asked for no entries, it says how many there are, with or without an error.
  unsigned processes = 0;
  nvml.call<int(device_handle, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3", device, &processes,
                                                  static_cast<void*>(nullptr));
  out.compute_processes = processes;
  out.links = read_nvlinks(nvml, device, out.sm);
  return true;
}

}  // namespace

const char* reason_of(int status) {
  switch (status) {
    case 0:
      return "possible";
    case 1:
      return "the chipset does not support it";
    case 2:
      return "the GPU does not support it";
    case 3:
      return "the I/O hubs do not support it";
    case 4:
      return "a driver setting disables it";
    case 5:
      return "the driver does not support it between these GPUs";
    default:
      return "the driver gives no reason";
  }
}

result read_nvml(const char* name, nvml_view& out) {
  library nvml(name);
  if (!nvml) return error(xylSystemError, "%s is not there", name);
  if (const int status = nvml.start(); status != success)
    return error(xylSystemError, "%s does not start (status %d)", name, status);
  nvml_view view;
  char driver[96] = {};
  if (nvml.call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", driver, sizeof driver) == success)
    view.driver = driver;
  unsigned count = 0;
  if (nvml.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count) != success)
    return error(xylSystemError, "%s does not count its devices", name);
  std::vector<device_handle> handles;
  for (unsigned i = 0; i < count; ++i) {
    device_handle device = nullptr;
    nvml_device found;
    if (nvml.call<int(unsigned, device_handle*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) != success) continue;
    if (!read_device(nvml, device, found)) continue;
    handles.push_back(device);
    view.devices.push_back(std::move(found));
  }
  for (std::size_t i = 0; i < handles.size(); ++i)
    for (std::size_t j = 0; j < handles.size(); ++j)
      for (int capability : {capability_read, capability_write}) {
        int status = 0;
        if (i == j || nvml.call<int(device_handle, device_handle, int, int*)>(
                          "nvmlDeviceGetP2PStatus", handles[i], handles[j], capability, &status) != success)
          continue;
        if (status == 0) continue;
        view.refused.push_back({i, j, status});
        break;
      }
  out = std::move(view);
  return {};
}

}  // namespace xyl::topo
