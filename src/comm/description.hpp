// SPDX-License-Identifier: BSD-3-Clause
//
// What a communicator was made of and decided, for people: xylCommDescribe's JSON and the line in the log. Made by
// rank 0, the same for all ranks; each rank adds what it alone knows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/machine_facts.hpp"
#include "comm/planning.hpp"
#include "os/numa.hpp"
#include "topo/plan.hpp"

namespace xyl {

struct described_choice {
  const planning_input& in;
  const selection& choice;
  const topo::plan& plan;
  const machine_facts& machine;
  std::span<const int> numa_of_rank;
  std::span<const numa_node> nodes;
  const topo::tuning* tuned;  // what the thresholds were measured with; null: they were not
};

std::string describe(const described_choice& what);
std::string line_of(const described_choice& what);

// Of registered buffers, which come and go.
struct window_facts {
  std::size_t number;
  std::uint64_t bytes;
  bool on_device;
  std::string why_staged;  // "": peers use it in place
};

// What one rank knows alone.
struct own_facts {
  int rank = 0;
  int device = -1;
  launch_overlap overlap = launch_overlap::none;
  std::string no_device_reason;  // "" with a device
  std::vector<window_facts> windows = {};
};
// Errors (xylInternalError): `common` is not what describe() made.
result describe_for(const std::string& common, const own_facts& own, std::string& out);

}  // namespace xyl
