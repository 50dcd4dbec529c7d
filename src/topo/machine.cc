// SPDX-License-Identifier: BSD-3-Clause
// hwloc or the file, then /sys, then NVML, then the user. The probe's measurements come between the last two; they
// are added by whoever measured, through figure_merge.hpp.
#include "topo/machine.hpp"

#include <utility>

#include "topo/hwloc_reader.hpp"
#include "topo/import.hpp"
#include "topo/live.hpp"
#include "topo/override.hpp"

namespace xyl::topo {

result read_machine(const machine_sources& sources, machine_view& out) {
  machine_view view;
  const bool from_file = !sources.file.empty();
  if (!from_file && !sources.live)
    return error(xylInvalidArgument, "without a file there is nothing to read but this machine");
  XYL_TRY(from_file ? import_file(sources.file.c_str(), view.g) : discover_hwloc(sources.root, view.g));
  if (sources.live) {
    const join how = from_file ? join::fill_gaps : join::later_wins;
    const std::string sys = sources.root + "/sys";
    if (has_pci(sys))
      add_sysfs(view.g, sys, how);
    else
      view.g.notes.push_back("There is no " + sys + "/bus/pci here: links, access control and BAR1 are not known.");
    if (!sources.nvml.empty()) {
      const result read = read_nvml(sources.nvml.c_str(), view.nvml);
      if (read.ok())
        add_nvml(view.g, view.nvml, how);
      else
        view.nvml_problem = read.text();
    }
  }
  if (!sources.override_file.empty()) XYL_TRY(apply_override_file(sources.override_file.c_str(), view.g));
  out = std::move(view);
  return {};
}

}  // namespace xyl::topo
