// SPDX-License-Identifier: BSD-3-Clause
// What schedules are put together from; for schedule*.cc only.
#pragma once

#include <span>
#include <vector>

#include "topo/schedule.hpp"

namespace xyl::topo {

using member_list = std::vector<std::uint16_t>;

constexpr double flag_ways_of(direction how) { return how == direction::push ? 2 : 3; }

// A phase that moves whole shares; without transfers yet. add_all_pairs: everyone to everyone else in the list.
[[nodiscard]] phase exchange(const char* name, direction how);
void add_all_pairs(phase& p, const member_list& members, double bytes);

// Everyone to the next: `bytes` each, in so many rounds, shared between the rings.
[[nodiscard]] phase around(const char* name, const std::vector<member_list>& rings, double bytes, unsigned rounds);

// The phase in parts, in each of which every switch writes to one root complex. A single part if it does already.
[[nodiscard]] std::vector<phase> split_by_target(const fabric& f, const phase& p);

// Reduce scatter inside islands, exchange across them by rail, allgather inside; for every collective.
void add_hierarchical(const fabric& f, pattern what, const ring_set& rings, std::span<const island_level> levels,
                      std::uint16_t root, std::vector<schedule>& out);

// Pipelined binary trees; with a flagged collapse, switches in a chain.
void add_tree(const fabric& f, pattern what, const ring_set& rings, std::uint16_t root, std::vector<schedule>& out);

}  // namespace xyl::topo
