// SPDX-License-Identifier: BSD-3-Clause
// A walk over hwloc's tree that keeps what GPUs and NICs hang on. Relies on check_xml() for files: hwloc is not
// made for input that lies.
#include "topo/hwloc_reader.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "topo/assembly.hpp"
#include "topo/hwloc_api.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

std::optional<vertex_kind> kind_of(const hwloc::pci_attributes& pci) {
  return kind_of_device(pci.class_id, pci.vendor_id);
}

const hwloc::pci_attributes& pci_of(hwloc_obj_t io) {
  return io->type == HWLOC_OBJ_PCI_DEVICE ? io->attr->pcidev : io->attr->bridge.upstream.pci;
}

class reader {
 public:
  reader(hwloc_topology_t t, graph& g, assembly& a) : topology_(t), graph_(g), assembly_(a) {}

  result read() {
    add_numa_nodes();
    visit_normal(hwloc_get_root_obj(topology_));
    add_nvlinks();
    return {};
  }

 private:
  void add_numa_nodes() {
    hwloc_obj_t node = nullptr;
    while ((node = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_NUMANODE, node))) {
      const vertex_id v = assembly_.add_numa_node(node->os_index);
      numa_.emplace(node->gp_index, v);
      hwloc_obj_t package = node;
      while (package && package->type != HWLOC_OBJ_PACKAGE) package = package->parent;
      if (!package) continue;
      auto [at, added] = sockets_.emplace(package->gp_index, no_vertex);
      if (added) at->second = assembly_.add_socket(package->os_index);
      graph_.link(v, at->second, edge_kind::internal, {}, {});
    }
    hwloc_obj_t package = nullptr;
    while ((package = hwloc_get_next_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, package)))
      if (!sockets_.contains(package->gp_index))
        sockets_.emplace(package->gp_index, assembly_.add_socket(package->os_index));
  }

  // hwloc hangs I/O objects on what they are close to: a NUMA node's parent, a package, or, if nobody knows, the
  // machine.
  void visit_normal(hwloc_obj_t object) {
    for (hwloc_obj_t io = object->io_first_child; io; io = io->next_sibling) {
      if (hwloc::is_host_bridge(io))
        add_root_complex(io, object);
      else if (io->type == HWLOC_OBJ_PCI_DEVICE || hwloc::is_pci_bridge(io))
        add_orphan(io, object);
    }
    for (hwloc_obj_t child = object->first_child; child; child = child->next_sibling) visit_normal(child);
  }

  static bool holds_devices(hwloc_obj_t io) {
    if (io->type == HWLOC_OBJ_PCI_DEVICE) return kind_of(io->attr->pcidev).has_value();
    for (hwloc_obj_t child = io->io_first_child; child; child = child->next_sibling)
      if (holds_devices(child)) return true;
    return false;
  }

  vertex_id home_of(hwloc_obj_t object, const std::string& what) {
    for (hwloc_obj_t up = object; up; up = up->parent) {
      if (up->nodeset && hwloc_bitmap_weight(up->nodeset) == 1) {
        hwloc_obj_t node =
            hwloc_get_numanode_obj_by_os_index(topology_, static_cast<unsigned>(hwloc_bitmap_first(up->nodeset)));
        if (node) return numa_.at(node->gp_index);
      }
      if (up->type == HWLOC_OBJ_PACKAGE) return sockets_.at(up->gp_index);
    }
    return assembly_.some_numa_node(what);
  }

  void add_root_complex(hwloc_obj_t bridge, hwloc_obj_t near) {
    if (!holds_devices(bridge)) return;
    const auto& below = bridge->attr->bridge.downstream.pci;
    const std::string name = format_text("root complex %04x:%02x", below.domain, below.secondary_bus);
    const vertex_id complex = assembly_.add_root_complex(name, home_of(near, name));
    for (hwloc_obj_t io = bridge->io_first_child; io; io = io->next_sibling) {
      if (io->type == HWLOC_OBJ_PCI_DEVICE)
        // Nothing but a virtual machine puts a GPU beside its root ports.
        add_device(io, complex, {}, confidence::low);
      else if (hwloc::is_pci_bridge(io) && holds_devices(io))
        add_root_port(io, complex);
    }
  }

  // A device for which no host bridge is known: it gets one of its own.
  void add_orphan(hwloc_obj_t io, hwloc_obj_t near) {
    if (!holds_devices(io)) return;
    const std::string name = "root complex of " + name_of(hwloc::address_of(pci_of(io)));
    const vertex_id complex = assembly_.add_root_complex(name, home_of(near, name));
    if (io->type == HWLOC_OBJ_PCI_DEVICE)
      add_device(io, complex, {}, confidence::low);
    else
      add_root_port(io, complex);
  }

  void add_root_port(hwloc_obj_t bridge, vertex_id complex) {
    const pci_address address = hwloc::address_of(pci_of(bridge));
    const vertex_id port =
        graph_.add(make_vertex(vertex_kind::root_port, "root port " + name_of(address), address));
    graph_.link(complex, port, edge_kind::internal, {}, {});
    add_below(bridge, port);
  }

  // What a root port or a downstream port leads to.
  void add_below(hwloc_obj_t port, vertex_id above) {
    const link_end end = end_of(port);
    for (hwloc_obj_t io = port->io_first_child; io; io = io->next_sibling) {
      if (io->type == HWLOC_OBJ_PCI_DEVICE)
        add_device(io, above, end, confidence::medium);
      else if (hwloc::is_pci_bridge(io) && holds_devices(io))
        add_switch(io, above, end);
    }
  }

  void add_switch(hwloc_obj_t upstream, vertex_id above, const link_end& port) {
    const auto& pci = pci_of(upstream);
    const pci_address address = hwloc::address_of(pci);
    const vertex_id chip = graph_.add(make_vertex(
        vertex_kind::pci_switch,
        format_text("PCIe switch %04x:%04x at %s", pci.vendor_id, pci.device_id, name_of(address).c_str()),
        address));
    connect(graph_, above, chip, port, end_of(upstream), confidence::medium);
    for (hwloc_obj_t io = upstream->io_first_child; io; io = io->next_sibling) {
      if (io->type == HWLOC_OBJ_PCI_DEVICE)
        add_device(io, chip, {}, confidence::medium);
      else if (hwloc::is_pci_bridge(io) && holds_devices(io))
        add_below(io, chip);
    }
  }

  void add_device(hwloc_obj_t device, vertex_id above, const link_end& port, confidence trust) {
    const auto& pci = device->attr->pcidev;
    const std::optional<vertex_kind> kind = kind_of(pci);
    if (!kind) return;
    vertex v = make_vertex(*kind, {}, hwloc::address_of(pci));
    std::string software;
    for (hwloc_obj_t os = device->io_first_child; os; os = os->next_sibling) {
      if (os->type != HWLOC_OBJ_OS_DEVICE) continue;
      if (const std::string_view uuid = hwloc::info(os, "NVIDIAUUID"); v.uuid.empty() && !uuid.empty())
        v.uuid = uuid;
      if (os->name && software.empty()) software = os->name;
    }
    const vertex_id added = assembly_.add_device(std::move(v), software);
    by_object_[device->gp_index] = added;
    for (hwloc_obj_t os = device->io_first_child; os; os = os->next_sibling) by_object_[os->gp_index] = added;
    connect(graph_, above, added, port, end_of(device), trust);
  }

  // hwloc's link speed is the link as trained now. The maxima are not hwloc's own; tools that describe a machine
  // for others add them under the names that the kernel gives them.
  static link_end end_of(hwloc_obj_t io) {
    const bool bridge = io->type == HWLOC_OBJ_BRIDGE;
    link_end end{.most = {}, .now = believable_link(double{pci_of(io).linkspeed}, bridge)};
    const std::optional<double> rate = parse_transfer_rate(hwloc::info(io, "PCIMaxLinkSpeed"));
    const int lanes = std::atoi(std::string(hwloc::info(io, "PCIMaxLinkWidth")).c_str());
    if (rate && lanes > 0) end.most = believable_link(*rate, static_cast<unsigned>(lanes), bridge);
    return end;
  }

  void add_nvlinks() {
    for (const char* name : {"NVLinkBandwidth", "XGMIBandwidth"}) {
      unsigned count = 1;
      hwloc_distances_s* matrix = nullptr;
      if (hwloc_distances_get_by_name(topology_, name, &count, &matrix, 0) != 0 || count == 0 || !matrix) continue;
      add_nvlinks(*matrix);
      hwloc_distances_release(topology_, matrix);
    }
  }

  // Values are MB/s, row to column. Ports on NVSwitches are summed up per GPU, because data may use all of them.
  void add_nvlinks(const hwloc_distances_s& matrix) {
    const auto at = [&](unsigned i, unsigned j) {
      return static_cast<double>(matrix.values[std::size_t{i} * matrix.nbobjs + j]) / 1000;
    };
    for (unsigned i = 0; i < matrix.nbobjs; ++i) {
      const vertex_id gpu = gpu_of(matrix.objs[i]);
      if (gpu == no_vertex) continue;
      double to_switches = 0;
      for (unsigned j = 0; j < matrix.nbobjs; ++j) {
        if (i == j || at(i, j) <= 0) continue;
        const hwloc_obj_t other = matrix.objs[j];
        if (hwloc::subtype(other) == "NVSwitch")
          to_switches += at(i, j);
        else if (other->type == HWLOC_OBJ_PACKAGE)
          assembly_.add_nvlink(gpu, sockets_.at(other->gp_index), at(i, j));
        else if (const vertex_id peer = gpu_of(other); peer != no_vertex && gpu < peer)
          assembly_.add_nvlink(gpu, peer, at(i, j));
      }
      if (to_switches > 0) assembly_.add_nvlink(gpu, assembly_.nv_switch(), to_switches);
    }
  }

  vertex_id gpu_of(hwloc_obj_t object) const {
    const auto at = by_object_.find(object->gp_index);
    if (at == by_object_.end() || at->second == no_vertex) return no_vertex;
    return graph_.vertices[at->second].kind == vertex_kind::gpu ? at->second : no_vertex;
  }

  hwloc_topology_t topology_;
  graph& graph_;
  assembly& assembly_;
  std::map<std::uint64_t, vertex_id> numa_, sockets_, by_object_;  // by hwloc's gp_index
};

result load(hwloc_topology_t t, const char* what, graph& out) {
  hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  hwloc_topology_set_cache_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(t) != 0) return error(xylInvalidArgument, "hwloc cannot load %s", what);
  graph g;
  assembly a(g);
  XYL_TRY(reader(t, g, a).read());
  a.finish();
  out = std::move(g);
  return {};
}

}  // namespace

result discover_hwloc(const std::string& fsroot, graph& out) {
  const hwloc::topology t = hwloc::make_topology();
  if (!t) return error(xylSystemError, "hwloc cannot be initialised");
  for (const char* component : hwloc::unwanted_components) hwloc::leave_out(t.get(), component);
  // Processors that a job may not use still have GPUs close to them.
  hwloc_topology_set_flags(t.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  // hwloc has no function for this. Only tests ask for it: changing the environment is not for programs with
  // threads.
  if (!fsroot.empty() && setenv("HWLOC_FSROOT", fsroot.c_str(), 1) != 0) return system_error("setenv HWLOC_FSROOT");
  const result loaded = load(t.get(), "this machine's topology", out);
  if (!fsroot.empty()) unsetenv("HWLOC_FSROOT");
  return loaded.ok() ? result() : error(loaded.code(), "%s", loaded.text().c_str());
}

result import_hwloc(const std::string& rendering, graph& out) {
  const hwloc::topology t = hwloc::make_topology();
  if (!t) return error(xylSystemError, "hwloc cannot be initialised");
  hwloc_topology_set_flags(t.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  // The length counts the final NUL.
  if (hwloc_topology_set_xmlbuffer(t.get(), rendering.c_str(), static_cast<int>(rendering.size() + 1)) != 0)
    return error(xylInvalidArgument, "hwloc does not accept it as a topology");
  return load(t.get(), "it: an object contradicts the ones around it", out);
}

result refuse_hwloc3() {
  return error(
      xylInvalidArgument,
      "written by hwloc 3, whose format is not read here; on that machine write it again in that of version "
      "2: lstopo --export-xml-flags v2 file.xml");
}

}  // namespace xyl::topo
