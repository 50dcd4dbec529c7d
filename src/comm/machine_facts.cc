// SPDX-License-Identifier: BSD-3-Clause
#include "comm/machine_facts.hpp"

#include <algorithm>

#include "topo/import.hpp"
#include "topo/override.hpp"
#include "topo/pci_link.hpp"

namespace xyl {

result named(const char* variable, const result& r) {
  return r.ok() ? result() : error(xylInvalidUsage, "%s: %s", variable, r.text().c_str());
}

std::string uuid_text(const std::uint8_t (&uuid)[16]) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i)
    text += format_text(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
  return text;
}

topo::pci_address address_of(const device_handle& h) {
  return topo::pci_address{static_cast<std::uint32_t>(h.pci_domain), static_cast<std::uint8_t>(h.pci_bus),
                           static_cast<std::uint8_t>(h.pci_device), 0};
}

// The graph as the machine or a file shows it; notes say what was not as it should be. driver: as NVML prints it.
result read_described_graph(const planning_input& in, machine_facts& out) {
  const parameters& p = in.wishes;
  if (!p.topology_file.empty()) {
    topo::machine_view view;
    topo::machine_sources sources{.file = p.topology_file,
                                  .override_file = {},
                                  .live = !in.devices.empty(),
                                  .root = in.root,
                                  .nvml = in.nvml};
    XYL_TRY(named("XYLEM_TOPO_FILE", topo::read_machine(sources, view)));
    out = {std::move(view.g), view.nvml.driver, "the file " + p.topology_file, {}};
  } else if (in.devices.empty()) {
    return {};
  } else {
    std::shared_ptr<const topo::machine_view> view;
    if (result read = in.machine->wait(in.patience, view); !read.ok()) {
      out.notes.push_back("The machine is not known: " + read.text());
      return {};
    }
    out = {view->g, view->nvml.driver, "discovery", {}};
    if (!view->nvml_problem.empty()) out.notes.push_back("The driver was not asked: " + view->nvml_problem);
  }
  return {};
}

result read_graph(const planning_input& in, machine_facts& out) {
  XYL_TRY(read_described_graph(in, out));
  out.key = topo::key_of(out.g, out.driver);
  if (in.probe != nullptr) topo::add_probe(*in.probe, out.g);
  const std::string& file = in.wishes.topology_override;
  if (file.empty()) return {};
  if (out.from.empty() && in.devices.empty()) {
    out.notes.push_back("XYLEM_TOPO_OVERRIDE is not read: the ranks have no devices, and no file describes any.");
    return {};
  }
  return named("XYLEM_TOPO_OVERRIDE", topo::apply_override_file(file.c_str(), out.g));
}

namespace {

bool is_forbidden(const topo::graph& g, topo::vertex_id from, topo::vertex_id to) {
  return std::any_of(g.pairs.begin(), g.pairs.end(), [&](const topo::pair_figure& p) {
    return p.from == from && p.to == to && p.peer_to_peer == false;
  });
}

}  // namespace

std::string forbidden_link(const planning_input& in) {
  const parameters& p = in.wishes;
  if (in.devices.empty() || (p.topology_file.empty() && p.topology_override.empty())) return {};
  machine_facts machine;
  if (!read_described_graph(in, machine).ok()) return {};
  topo::graph& g = machine.g;
  // The driver's refusals are not a person's: whether they hold is tried. What it adds to a file comes behind it,
  // so that numbers of vertices are the same.
  topo::graph file;
  if (!p.topology_file.empty() && !topo::import_file(p.topology_file.c_str(), file).ok()) return {};
  for (topo::pair_figure& one : g.pairs)
    if (!is_forbidden(file, one.from, one.to)) one.peer_to_peer.reset();
  if (!p.topology_override.empty() && !topo::apply_override_file(p.topology_override.c_str(), g).ok()) return {};

  std::vector<topo::vertex_id> used;
  for (const topo::vertex_id v : g.gpus())
    if (std::any_of(in.devices.begin(), in.devices.end(),
                    [&](const device_handle& h) { return g.vertices[v].pci == address_of(h); }))
      used.push_back(v);
  std::string first;
  unsigned more = 0;
  for (const topo::vertex_id from : used)
    for (const topo::vertex_id to : used) {
      if (from == to || !is_forbidden(g, from, to)) continue;
      const bool by_file = is_forbidden(file, from, to);
      if (first.empty())
        first = format_text("%s=%.100s says that there is no peer-to-peer from %s to %s",
                            by_file ? "XYLEM_TOPO_FILE" : "XYLEM_TOPO_OVERRIDE",
                            by_file ? p.topology_file.c_str() : p.topology_override.c_str(),
                            g.vertices[from].name.c_str(), g.vertices[to].name.c_str());
      else
        ++more;
    }
  return more == 0 ? first : first + format_text(", nor between %u more pairs", more);
}

std::vector<topo::vertex_id> place_ranks(const planning_input& in, machine_facts& machine) {
  std::vector<topo::vertex_id> gpu_of_rank;
  std::string missing;
  const std::vector<topo::vertex_id> gpus = machine.g.gpus();
  for (std::size_t rank = 0; rank < in.devices.size(); ++rank) {
    const topo::pci_address pci = address_of(in.devices[rank]);
    const auto at =
        std::find_if(gpus.begin(), gpus.end(), [&](topo::vertex_id v) { return machine.g.vertices[v].pci == pci; });
    if (at != gpus.end())
      gpu_of_rank.push_back(*at);
    else if (missing.empty())
      missing = format_text("The GPU %s of rank %zu", topo::name_of(pci).c_str(), rank);
  }
  if (missing.empty()) return gpu_of_rank;
  if (!machine.from.empty())
    machine.notes.push_back(missing + " is not in what " + machine.from +
                            " shows: planned as GPUs below one root complex, of whose links nothing is known.");
  std::vector<std::optional<topo::pci_address>> distinct;
  for (const device_handle& h : in.devices)
    if (std::find(distinct.begin(), distinct.end(), address_of(h)) == distinct.end())
      distinct.push_back(address_of(h));
  machine.g = topo::flat_machine(distinct);
  machine.from = "nothing but the addresses of the GPUs";
  if (in.probe != nullptr) topo::add_probe(*in.probe, machine.g);
  gpu_of_rank.clear();
  for (const device_handle& h : in.devices)
    for (topo::vertex_id v : machine.g.gpus())
      if (machine.g.vertices[v].pci == address_of(h)) gpu_of_rank.push_back(v);
  return gpu_of_rank;
}

}  // namespace xyl
