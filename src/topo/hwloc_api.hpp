// SPDX-License-Identifier: BSD-3-Clause
// The one file that knows which hwloc this is. hwloc 2 and 3 differ, of what discovery uses, in the width of a PCI
// domain alone: attributes are read through functions and members that both have. Both read the XML of version 2.
// Included by the hwloc reader alone.
#pragma once

#include <hwloc.h>
#include <hwloc/distances.h>

#include <memory>
#include <string_view>

#include "topo/graph.hpp"

namespace xyl::topo::hwloc {

using topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

inline topology make_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) raw = nullptr;
  return {raw, &hwloc_topology_destroy};
}

inline std::string_view info(hwloc_obj_t object, const char* name) {
  const char* text = hwloc_obj_get_info_by_name(object, name);
  return text ? text : std::string_view();
}

inline std::string_view subtype(hwloc_obj_t object) {
  return object->subtype ? object->subtype : std::string_view();
}

// hwloc 2 keeps 16 bits of the domain unless it was built otherwise, and leaves out devices whose domain has more.
using pci_attributes = decltype(hwloc_obj_attr_u::pcidev);
inline pci_address address_of(const pci_attributes& pci) { return {pci.domain, pci.bus, pci.dev, pci.func}; }

inline bool is_host_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_HOST;
}
inline bool is_pci_bridge(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

// Components that would create contexts on the GPUs, or wait for a display server; and the one that reads PCI
// through libpciaccess, which loads and loses the names of all devices there are: hwloc's Linux component reads the
// same devices from /sys.
inline constexpr const char* unwanted_components[] = {"gl", "opencl", "cuda", "pci"};

// Fails for a component that this hwloc does not have, which is as good.
inline void leave_out(hwloc_topology_t t, const char* component) {
  (void)hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
}

}  // namespace xyl::topo::hwloc
