// SPDX-License-Identifier: BSD-3-Clause
#include "os/numa.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace xyl {

bool parse_processors(std::string_view text, cpu_set_t& out) {
  cpu_set_t read{};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    unsigned first = 0;
    auto number = std::from_chars(at, end, first);
    if (number.ec != std::errc{}) return false;
    unsigned last = first;
    if (number.ptr != end && *number.ptr == '-') {
      number = std::from_chars(number.ptr + 1, end, last);
      if (number.ec != std::errc{}) return false;
    }
    if (last < first || last >= CPU_SETSIZE) return false;
    for (unsigned p = first; p <= last; ++p) CPU_SET(p, &read);
    at = number.ptr;
    if (at == end) break;
    if (*at++ != ',' || at == end) return false;
  }
  out = read;
  return true;
}

std::vector<numa_node> list_numa_nodes(const std::string& root) {
  std::vector<numa_node> nodes;
  std::error_code failure;
  std::filesystem::directory_iterator at(root + "/sys/devices/system/node", failure);
  for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure)) {
    const std::string name = at->path().filename().string();
    numa_node node;
    if (!name.starts_with("node")) continue;
    const char* const end = name.data() + name.size();
    const auto number = std::from_chars(name.data() + 4, end, node.number);
    if (number.ec != std::errc{} || number.ptr != end) continue;
    std::ifstream file(at->path() / "cpulist");
    std::string list;
    std::getline(file, list);
    if (parse_processors(list, node.processors) && CPU_COUNT(&node.processors) > 0) nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end(), [](const numa_node& a, const numa_node& b) { return a.number < b.number; });
  return nodes;
}

int numa_node_of(const cpu_set_t& processors, std::span<const numa_node> nodes) {
  if (CPU_COUNT(&processors) == 0) return -1;
  for (const numa_node& node : nodes) {
    cpu_set_t common;
    CPU_AND(&common, &processors, &node.processors);
    if (CPU_EQUAL(&common, &processors)) return node.number;
  }
  return -1;
}

int numa_node_of_pci(const std::string& root, std::string_view address) {
  std::ifstream file(root + "/sys/bus/pci/devices/" + std::string(address) + "/numa_node");
  int node = -1;
  return file >> node && node >= 0 ? node : -1;
}

// The C library has no functions for these without libnuma, which nothing else here needs.
preferred_numa_node::preferred_numa_node(int node) {
  if (node < 0 || node >= most_nodes) return;
  if (::syscall(SYS_get_mempolicy, &mode_before_, nodes_before_, most_nodes, nullptr, 0) != 0) return;
  unsigned long nodes[most_nodes / bits] = {};
  nodes[node / bits] = 1ul << node % bits;
  // The kernel takes one less than it is told.
  is_set_ = ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, most_nodes + 1) == 0;
}

preferred_numa_node::~preferred_numa_node() {
  if (is_set_) (void)::syscall(SYS_set_mempolicy, mode_before_, nodes_before_, most_nodes + 1);
}

}  // namespace xyl
