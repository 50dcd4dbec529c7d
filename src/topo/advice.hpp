// SPDX-License-Identifier: BSD-3-Clause
// What is wrong with the box, as far as the graph and the driver show it: each finding with its evidence and with
// the command or the setting that would change it. Nothing is measured here; what only a measurement can tell is
// added by the probe.
#pragma once

#include <string>
#include <vector>

#include "topo/graph.hpp"
#include "topo/nvml.hpp"

namespace xyl::topo {

enum class weight : std::uint8_t {
  costly,   // slows collectives down, perhaps many times
  worth,    // may cost something; worth a look
  unknown,  // could not be looked at
};

struct finding {
  weight how_much = weight::worth;
  std::string title;
  std::string evidence;
  std::string fix;
};

struct surroundings {
  nvml_view nvml;  // empty of devices where the driver was not asked
  bool mps_running = false;
  bool live = false;        // the graph is this machine's
  bool privileged = false;  // could have read all of PCI's configuration space
};

// The costliest first.
[[nodiscard]] std::vector<finding> find_advice(const graph& g, const surroundings& about);

}  // namespace xyl::topo
