// SPDX-License-Identifier: BSD-3-Clause
//
// Which NUMA node a process runs on, as far as its permission to run says it. Relies on /sys; without it, or where
// a process may run on several nodes, nothing is known, which is no error.
#pragma once

#include <sched.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xyl {

struct numa_node {
  int number = 0;
  cpu_set_t processors{};
};

// Those with processors, by number. root: where /sys is looked for; empty: /.
std::vector<numa_node> list_numa_nodes(const std::string& root);

// The node that has all of these processors; -1: there is none, or `processors` is empty.
int numa_node_of(const cpu_set_t& processors, std::span<const numa_node> nodes);

// The kernel's lists, "0-3,8,10-11"; false for anything else, and for processors that the set has no room for.
bool parse_processors(std::string_view text, cpu_set_t& out);

}  // namespace xyl
