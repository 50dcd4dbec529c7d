// SPDX-License-Identifier: BSD-3-Clause
// Bridges by depth-first search with low links (Tarjan 1974), with a stack of its own: the depth of a file's tree
// is not to be trusted to the call stack. Vertices come off that stack children first, which is all that is needed
// to put blocks together.
#include "topo/machine_tree.hpp"

#include <algorithm>
#include <limits>

namespace xyl::topo {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

bool connects(const graph& g, const edge& e) {
  const auto passes = [&](vertex_id v) {
    const vertex_kind kind = g.vertices[v].kind;
    return kind != vertex_kind::nic && kind != vertex_kind::host_memory && kind != vertex_kind::nv_switch;
  };
  return e.kind != edge_kind::nvlink && passes(e.from) && passes(e.to);
}

struct visit {
  std::uint32_t order = none;
  std::uint32_t low = none;
  std::uint32_t by = none;  // the edge it was reached over
};

}  // namespace

machine_tree::machine_tree(const graph& g, std::span<const vertex_id> gpus) { find_blocks(g, gpus); }

void machine_tree::find_blocks(const graph& g, std::span<const vertex_id> gpus) {
  std::vector<std::vector<std::uint32_t>> outgoing(g.vertices.size());
  for (std::uint32_t e = 0; e < g.edges.size(); ++e)
    if (connects(g, g.edges[e])) outgoing[g.edges[e].from].push_back(e);
  std::vector<visit> seen(g.vertices.size());
  std::vector<std::size_t> next(g.vertices.size(), 0);
  std::vector<vertex_id> preorder;
  for (vertex_id start : gpus) {
    if (seen[start].order != none) continue;
    std::vector<vertex_id> stack;
    const auto enter = [&](vertex_id v, std::uint32_t by) {
      seen[v] = {static_cast<std::uint32_t>(preorder.size()), static_cast<std::uint32_t>(preorder.size()), by};
      preorder.push_back(v);
      stack.push_back(v);
    };
    enter(start, none);
    while (!stack.empty()) {
      const vertex_id v = stack.back();
      if (next[v] < outgoing[v].size()) {
        const std::uint32_t e = outgoing[v][next[v]++];
        const vertex_id to = g.edges[e].to;
        if (seen[to].order == none)
          enter(to, e);
        else if (seen[v].by == none || g.edges[seen[v].by].reverse != e)
          seen[v].low = std::min(seen[v].low, seen[to].order);
      } else {
        stack.pop_back();
        if (!stack.empty()) seen[stack.back()].low = std::min(seen[stack.back()].low, seen[v].low);
      }
    }
  }

  // A vertex whose low link does not pass the edge it was reached over begins a block; others join their parent's.
  std::vector<std::uint32_t> block_of(g.vertices.size(), none), above;
  for (vertex_id v : preorder) {
    const bool bridged = seen[v].by == none || seen[v].low == seen[v].order;
    if (bridged) {
      block_of[v] = static_cast<std::uint32_t>(blocks_.size());
      blocks_.emplace_back();
      above.push_back(seen[v].by == none ? none : block_of[g.edges[seen[v].by].from]);
    } else {
      block_of[v] = block_of[g.edges[seen[v].by].from];
    }
    ++blocks_[block_of[v]].vertices;
  }
  for (std::uint16_t i = 0; i < gpus.size(); ++i) {
    block& b = blocks_[block_of[gpus[i]]];
    b.gpus.push_back(i);
    b.least_gpu = std::min(b.least_gpu, i);
  }
  // Blocks are numbered in preorder, so those below come later.
  for (auto b = static_cast<std::uint32_t>(blocks_.size()); b-- > 0;)
    if (above[b] != none) blocks_[above[b]].least_gpu = std::min(blocks_[above[b]].least_gpu, blocks_[b].least_gpu);
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].least_gpu == 0xffff) continue;
    (above[b] == none ? roots_ : blocks_[above[b]].branches).push_back(b);
  }
  const auto by_least_gpu = [this](std::uint32_t a, std::uint32_t b) {
    return blocks_[a].least_gpu < blocks_[b].least_gpu;
  };
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    std::sort(blocks_[b].branches.begin(), blocks_[b].branches.end(), by_least_gpu);
    if (blocks_[b].vertices > 1 && blocks_[b].branches.size() >= 2) open_.push_back(b);
  }
  std::sort(roots_.begin(), roots_.end(), by_least_gpu);
}

std::vector<std::uint16_t> machine_tree::depth_first_order() const {
  std::vector<std::uint16_t> order;
  std::vector<std::uint32_t> stack(roots_.rbegin(), roots_.rend());
  while (!stack.empty()) {
    const block& b = blocks_[stack.back()];
    stack.pop_back();
    order.insert(order.end(), b.gpus.begin(), b.gpus.end());
    stack.insert(stack.end(), b.branches.rbegin(), b.branches.rend());
  }
  return order;
}

}  // namespace xyl::topo
