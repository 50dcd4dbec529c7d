// SPDX-License-Identifier: BSD-3-Clause
//
// Which NUMA node a process runs on, as far as its permission to run says it, which one a PCI device is at, and on
// which one new memory lies. Relies on /sys; without it, or where a process may run on several nodes, nothing is
// known, which is no error.
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

// The node that a PCI device is at ("0000:3b:00.0"); -1: not known.
int numa_node_of_pci(const std::string& root, std::string_view address);

// While it lives, memory that this thread touches first lies on that node as far as it has room; -1: as ever. Where
// the kernel does not let processes say so, nothing happens.
class preferred_numa_node {
 public:
  explicit preferred_numa_node(int node);
  ~preferred_numa_node();
  preferred_numa_node(const preferred_numa_node&) = delete;
  preferred_numa_node& operator=(const preferred_numa_node&) = delete;
  // Whether the kernel agreed.
  bool is_set() const { return is_set_; }

 private:
  static constexpr int most_nodes = 1024;
  static constexpr int bits = 8 * sizeof(unsigned long);
  bool is_set_ = false;
  int mode_before_ = 0;
  unsigned long nodes_before_[most_nodes / bits] = {};
};

// The kernel's lists, "0-3,8,10-11"; false for anything else, and for processors that the set has no room for.
bool parse_processors(std::string_view text, cpu_set_t& out);

}  // namespace xyl
