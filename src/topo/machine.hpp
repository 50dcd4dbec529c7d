// SPDX-License-Identifier: BSD-3-Clause
// The machine as planning and xylem-topo see it: every source in its order, a later one replacing an earlier one.
// With a file only the file and the override count when planning offline; at run time discovery fills what the file
// omits.
#pragma once

#include <string>

#include "base/result.hpp"
#include "topo/graph.hpp"
#include "topo/nvml.hpp"

namespace xyl::topo {

struct machine_sources {
  std::string file;                        // empty: this machine is discovered
  std::string override_file;               // empty: none
  bool live = true;                        // false: nothing of this machine counts, which needs a file
  std::string root;                        // where /sys and /proc are looked for; empty: /
  std::string nvml = "libnvidia-ml.so.1";  // empty: not asked
};

// nvml: what NVML said, if it was asked and answered; why not is nvml_problem.
struct machine_view {
  graph g;
  nvml_view nvml;
  std::string nvml_problem;
};

[[nodiscard]] result read_machine(const machine_sources& sources, machine_view& out);

}  // namespace xyl::topo
