// SPDX-License-Identifier: BSD-3-Clause
// Counting from 1, the number of trailing zero bits of a position is its height: odd positions are leaves, and the
// parent is found by moving the lowest set bit one up. Positions above the count are passed over upwards.
#include "topo/trees.hpp"

#include <algorithm>
#include <bit>

namespace xyl::topo {
namespace {

std::uint64_t parent_of(std::uint64_t position, std::uint64_t count) {
  const std::uint64_t top = std::bit_floor(count);
  if (position == top) return 0;
  std::uint64_t at = position;
  do {
    const std::uint64_t lowest = at & (~at + 1);
    at = (at ^ lowest) | lowest << 1;
  } while (at > count);
  return at;
}

}  // namespace

tree_parents binary_tree(std::uint32_t count) {
  tree_parents tree(count, no_parent);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t parent = parent_of(std::uint64_t{i} + 1, count);
    if (parent != 0) tree[i] = static_cast<std::uint32_t>(parent - 1);
  }
  return tree;
}

tree_pair double_binary_tree(std::uint32_t count) {
  tree_pair pair{binary_tree(count), tree_parents(count, no_parent)};
  for (std::uint32_t i = 0; i < count; ++i)
    if (pair.first[i] != no_parent) pair.second[(i + 1) % count] = (pair.first[i] + 1) % count;
  return pair;
}

unsigned depth_of(const tree_parents& tree) {
  unsigned deepest = 0;
  for (std::uint32_t i = 0; i < tree.size(); ++i) {
    unsigned depth = 0;
    for (std::uint32_t at = i; tree[at] != no_parent; at = tree[at]) ++depth;
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

void root_at(tree_parents& tree, std::uint32_t root) {
  std::uint32_t below = no_parent;
  for (std::uint32_t at = root; at != no_parent;) {
    const std::uint32_t above = tree[at];
    tree[at] = below;
    below = at;
    at = above;
  }
}

}  // namespace xyl::topo
