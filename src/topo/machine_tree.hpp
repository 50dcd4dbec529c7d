// SPDX-License-Identifier: BSD-3-Clause
// The machine without NVLink as a tree: vertices that several disjoint ways connect (sockets linked all to all,
// quadrants) are one block, and what is left between blocks are bridges, each of which separates GPUs. Depth-first
// order from the first GPU crosses every bridge once each way; only the order of branches at a block of several
// vertices is open.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo {

class machine_tree {
 public:
  // gpus: distinct, in the order that plans use. GPUs that are not connected become trees of their own, in order.
  machine_tree(const graph& g, std::span<const vertex_id> gpus);

  // Indices into gpus.
  [[nodiscard]] std::vector<std::uint16_t> depth_first_order() const;

  // Blocks at which the order of branches matters, from the top: several vertices, and three or more branches,
  // of which the one that leads to the first GPU stays where it is.
  [[nodiscard]] const std::vector<std::uint32_t>& open_blocks() const { return open_; }
  // The branches of a block, which a caller may permute.
  [[nodiscard]] std::vector<std::uint32_t>& branches(std::uint32_t block) { return blocks_[block].branches; }

 private:
  struct block {
    std::vector<std::uint32_t> branches;  // blocks further from the first GPU, by their least GPU
    std::vector<std::uint16_t> gpus;      // in the block itself
    std::uint16_t least_gpu = 0xffff;     // of the block and all below
    std::uint32_t vertices = 0;
  };
  void find_blocks(const graph& g, std::span<const vertex_id> gpus);

  std::vector<block> blocks_;
  std::vector<std::uint32_t> roots_;
  std::vector<std::uint32_t> open_;
};

}  // namespace xyl::topo
