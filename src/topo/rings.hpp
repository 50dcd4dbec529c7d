// SPDX-License-Identifier: BSD-3-Clause
// Closed tours over the GPUs. On a tree depth-first order is optimal: it crosses every separating edge once each
// way, which every tour must. Only what is not a tree is searched: the order of branches where several ways connect
// them, and partial NVLink meshes. Several rings share the message: the same tour with the GPUs of each switch
// rotated, so that another of them crosses the uplink, and all of them backwards, but not where a write collapse is
// flagged: one tour leaves each switch toward one target, a tour and its reverse together do not.
#pragma once

#include <cstdint>
#include <vector>

#include "topo/fabric.hpp"

namespace xyl::topo {

inline constexpr std::size_t most_rings = 8;

struct ring_set {
  std::vector<std::vector<std::uint16_t>> orders;  // members, each once; ranks of one GPU follow each other
  // GB/s that each edge of the ring gets with all rings at once (the inverse of the time per byte of the slowest).
  double rate = 0;
};

[[nodiscard]] ring_set make_rings(const fabric& f);

// ns per byte when every GPU of a closed tour sends one byte to the next, shared equally between the tours.
// Orders of indices into f.gpus.
[[nodiscard]] double tour_time(const fabric& f, const std::vector<std::vector<std::uint16_t>>& gpu_orders);

}  // namespace xyl::topo
