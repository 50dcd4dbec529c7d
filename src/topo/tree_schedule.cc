// SPDX-License-Identifier: BSD-3-Clause
// Trees over the ring's order, in which GPUs of one switch, root complex and socket follow each other. A double
// binary tree halves what each member sends in each. Where a write collapse is flagged, a switch may write to one
// root complex at a time: its members send to its first one, the switches form a chain in the ring's order, and the
// way up has ended before the way down begins.
#include <algorithm>

#include "topo/schedule_parts.hpp"
#include "topo/trees.hpp"

namespace xyl::topo {
namespace {

struct member_tree {
  member_list parent;  // by member; itself at the root
  unsigned depth = 0;
};

member_tree along(const member_list& order, const tree_parents& tree) {
  member_tree t{member_list(order.size()), depth_of(tree)};
  for (std::size_t i = 0; i < order.size(); ++i) t.parent[order[i]] = order[tree[i] == no_parent ? i : tree[i]];
  return t;
}

// Members of a switch below its first, switches one after the other.
tree_parents chain_of_switches(const fabric& f, std::span<const std::uint16_t> order) {
  tree_parents tree(order.size(), no_parent);
  std::uint32_t leader = 0;
  for (std::uint32_t i = 1; i < order.size(); ++i) {
    const std::uint16_t of = f.switch_of_gpu[f.gpu_of_member[order[i]]];
    tree[i] = leader;
    if (of == no_switch || of != f.switch_of_gpu[f.gpu_of_member[order[leader]]]) leader = i;
  }
  return tree;
}

phase one_way(const char* name, const std::vector<member_tree>& trees, bool up, const fabric& f) {
  phase p;
  p.name = name;
  unsigned depth = 0;
  for (const member_tree& t : trees) {
    depth = std::max(depth, t.depth);
    for (std::uint16_t m = 0; m < t.parent.size(); ++m)
      if (t.parent[m] != m)
        p.transfers.push_back(
            {up ? m : t.parent[m], up ? t.parent[m] : m, 1.0 / static_cast<double>(trees.size())});
  }
  p.rounds = depth;
  p.stretch = 1 + (depth > 0 ? depth - 1 : 0) / f.constants.pipeline_parts;
  return p;
}

}  // namespace

std::vector<tree_parents> trees_along(const fabric& f, std::span<const std::uint16_t> order) {
  if (f.collapse_flagged) return {chain_of_switches(f, order)};
  tree_pair pair = double_binary_tree(static_cast<std::uint32_t>(order.size()));
  return {std::move(pair.first), std::move(pair.second)};
}

void add_tree(const fabric& f, pattern what, const ring_set& rings, std::uint16_t root,
              std::vector<schedule>& out) {
  if (what != pattern::all_reduce && what != pattern::broadcast) return;
  member_list order = rings.orders[0];
  std::vector<member_tree> trees;
  if (what == pattern::broadcast) {
    // The root first, then what shares its switch; the others keep their order around the ring.
    std::rotate(order.begin(), std::find(order.begin(), order.end(), root), order.end());
    const std::uint16_t of = f.switch_of_gpu[f.gpu_of_member[root]];
    std::stable_partition(order.begin() + 1, order.end(), [&](std::uint16_t m) {
      return of != no_switch && f.switch_of_gpu[f.gpu_of_member[m]] == of;
    });
  }
  for (tree_parents tree : trees_along(f, order)) {
    if (what == pattern::broadcast) root_at(tree, 0);
    trees.push_back(along(order, tree));
  }
  schedule s;
  s.what = what;
  s.how = method::tree;
  phase down = one_way("broadcast down", trees, false, f);
  if (what == pattern::broadcast) {
    s.phases = {down};
  } else {
    phase up = one_way("reduce up", trees, true, f);
    if (f.collapse_flagged) {
      s.phases = {up, down};
    } else {
      // Parts go up and down at the same time.
      up.name = "reduce up, broadcast down";
      up.transfers.insert(up.transfers.end(), down.transfers.begin(), down.transfers.end());
      up.rounds += down.rounds;
      up.stretch = 1 + (up.rounds > 0 ? up.rounds - 1 : 0) / f.constants.pipeline_parts;
      s.phases = {up};
    }
  }
  out.push_back(std::move(s));
}

}  // namespace xyl::topo
