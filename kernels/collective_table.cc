// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/collective_table.hpp"

#include <vector>

#include "exec/dispatch.hpp"
#include "kernels/kernel_family.hpp"
#include "proto/stand_in.hpp"

namespace xyl {
namespace {

const std::array<reduce_families, element_types::size>& reduces() {
  static const auto all = [] {
    std::array<reduce_families, element_types::size> made;
    element_types::for_each([&](auto entry, int at) {
      made[static_cast<std::size_t>(at)] = reduce_kernels<stand_in_of<typename decltype(entry)::type>>();
    });
    return made;
  }();
  return all;
}

const move_kernels& moves() {
  static const move_kernels all = movement_kernels();
  return all;
}

}  // namespace

kernel choose_reduce_kernel(reduce_form form, xylDataType_t type, xylRedOp_t operation, int ranks) {
  const int index = element_types::index_of(type);
  if (index < 0) return {};
  const reduce_families& of_type = reduces()[static_cast<std::size_t>(index)];
  const kernel_family& family = form == reduce_form::packet   ? of_type.packet
                                : form == reduce_form::direct ? of_type.direct
                                                              : of_type.two_phase;
  return choose_of(family, operation, ranks);
}

kernel choose_copied_kernel(xylDataType_t type) {
  const int index = element_types::index_of(type);
  return index < 0 ? kernel{} : reduces()[static_cast<std::size_t>(index)].copied;
}

kernel choose_swap_kernel() { return moves().swap; }

kernel choose_swap_sum_kernel(xylDataType_t type) {
  const int index = element_types::index_of(type);
  return index < 0 ? kernel{} : reduces()[static_cast<std::size_t>(index)].swap;
}

kernel choose_move_kernel(move_form form, int ranks, bool whole) {
  switch (form) {
    case move_form::packet:
      return moves().packet[static_cast<std::size_t>(whole ? index_of_fixed(ranks) + 1 : 0)];
    case move_form::spread:
      return moves().spread_broadcast;
    default:
      return moves().exchange;
  }
}

std::span<const kernel> all_collective_kernels() {
  static const std::vector<kernel> all = [] {
    std::vector<kernel> list(moves().packet.begin(), moves().packet.end());
    for (const kernel& k : {moves().exchange, moves().spread_broadcast, moves().transfer, moves().swap})
      list.push_back(k);
    for (const reduce_families& of_type : reduces())
      for (const kernel_family& family : {of_type.packet, of_type.direct, of_type.two_phase})
        list_family(family, list);
    for (const reduce_families& of_type : reduces())
      if (of_type.swap.function) list.push_back(of_type.swap);
    return list;
  }();
  return all;
}

}  // namespace xyl
