// SPDX-License-Identifier: BSD-3-Clause
// Binary trees over positions 0..n-1 in which every subtree is a contiguous range: positions in depth-first order
// of the machine, or nodes of a cluster, so that few edges of the tree cross few links. And the pair of trees of
// Sanders, Speck and Traff ("Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009): no
// position is inside both, so that each sends and receives half of the message in each.
#pragma once

#include <cstdint>
#include <vector>

namespace xyl::topo {

inline constexpr std::uint32_t no_parent = 0xffffffff;

// parent[i], and no_parent for the one root.
using tree_parents = std::vector<std::uint32_t>;

[[nodiscard]] tree_parents binary_tree(std::uint32_t count);

struct tree_pair {
  tree_parents first;
  tree_parents second;  // the first, one position further around
};
[[nodiscard]] tree_pair double_binary_tree(std::uint32_t count);

// Edges from the deepest position to the root.
[[nodiscard]] unsigned depth_of(const tree_parents& tree);

// The same tree with `root` on top: the way from the old root is turned around.
void root_at(tree_parents& tree, std::uint32_t root);

}  // namespace xyl::topo
