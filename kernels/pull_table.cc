// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pull_table.hpp"

#include <vector>

#include "exec/dispatch.hpp"
#include "kernels/kernel_family.hpp"
#include "proto/stand_in.hpp"

namespace xyl {
namespace {

const std::array<pull_families, element_types::size>& reductions() {
  static const auto all = [] {
    std::array<pull_families, element_types::size> made;
    element_types::for_each([&](auto entry, int at) {
      made[static_cast<std::size_t>(at)] = pull_kernels<stand_in_of<typename decltype(entry)::type>>();
    });
    return made;
  }();
  return all;
}

}  // namespace

kernel choose_pull_kernel(pull_form form, xylDataType_t type, xylRedOp_t operation, int ranks) {
  const int index = element_types::index_of(type);
  if (index < 0) return {};
  const pull_families& of_type = reductions()[static_cast<std::size_t>(index)];
  const kernel_family& family = form == pull_form::staged ? of_type.staged : of_type.registered;
  return choose_of(family, operation, ranks);
}

std::span<const kernel> all_pull_kernels() {
  static const std::vector<kernel> all = [] {
    std::vector<kernel> list{pull_movement_kernel()};
    for (const pull_families& of_type : reductions())
      for (const kernel_family& family : {of_type.registered, of_type.staged}) list_family(family, list);
    return list;
  }();
  return all;
}

}  // namespace xyl
