// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pull_table.hpp"

#include <vector>

#include "exec/dispatch.hpp"
#include "kernels/kernel_family.hpp"
#include "proto/stand_in.hpp"

namespace xyl {
namespace {

const std::array<kernel_family, element_types::size>& reductions() {
  static const auto all = [] {
    std::array<kernel_family, element_types::size> made;
    element_types::for_each([&](auto entry, int at) {
      made[static_cast<std::size_t>(at)] = pull_kernels<stand_in_of<typename decltype(entry)::type>>();
    });
    return made;
  }();
  return all;
}

}  // namespace

kernel choose_pull_kernel(xylDataType_t type, xylRedOp_t operation, int ranks) {
  const int index = element_types::index_of(type);
  if (index < 0) return {};
  return choose_of(reductions()[static_cast<std::size_t>(index)], operation, ranks);
}

std::span<const kernel> all_pull_kernels() {
  static const std::vector<kernel> all = [] {
    std::vector<kernel> list{pull_movement_kernel()};
    for (const kernel_family& family : reductions()) list_family(family, list);
    return list;
  }();
  return all;
}

}  // namespace xyl
