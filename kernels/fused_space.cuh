// SPDX-License-Identifier: BSD-3-Clause
//
// The CUDA space of blocks that share rows (see proto/row.hpp). A warp finds the tree's value over its group of 32
// pieces by exchanging registers. Then every block of the team gets every group's value, and every warp goes
// through the rest of the tree by itself. The values travel
//
//   within a block      through shared memory and one barrier;
//   within a cluster    into the shared memory of all its blocks, and one barrier of the cluster (SM 90 and later);
//   within another team through the team lines in this rank's workspace.
//
// Shared memory is used in two halves in turn: a warp that is late reads one half while the others, at most one
// meeting ahead, write the other.
#pragma once

#include "kernels/cuda_space.cuh"
#include "kernels/fused_arguments.hpp"
#include "proto/row.hpp"

namespace xyl {

struct fused_state {
  block_state base;
  std::uint32_t bad;  // in a cluster: a block of it has failed
  alignas(16) std::uint32_t group[2][layout::team_groups];
};

template <int Capacity, int Pieces>
class fused_space : public cuda_space<Capacity> {
  using base = cuda_space<Capacity>;

 public:
  static constexpr int pieces_of_lane = Pieces;

  __device__ __forceinline__ fused_space(const fused_arguments<Capacity>& given, fused_state& state)
      : base(given, state.base), given_(given), state_(state) {
    if (given_.work.is_clustered) {
      if (threadIdx.x == 0) state_.bad = 0;
      // No block writes to another's shared memory before that has begun.
      machine::arrive_in_cluster();
    }
  }

  __device__ __forceinline__ void leave() {
    cluster_has_begun();
    base::leave();
  }

  template <class Op, int J>
  __device__ __forceinline__ bool row_combine(const fused_work& w, const row_team& t, unsigned row, unsigned set,
                                              unsigned pieces, bool good, const std::uint32_t (&leaf)[J],
                                              std::uint32_t& out) {
    std::uint32_t group[J];
#pragma unroll
    for (int j = 0; j < J; ++j) group[j] = over_warp<Op>(leaf[j]);
    std::uint32_t value[4];
    if (w.split > 1 && !w.is_clustered) {
      if (!by_lines(t, row, set, pieces, good, group, value)) return false;
    } else {
      std::uint32_t* const shared = state_.group[turn_];
      turn_ ^= 1;
      if (w.is_clustered) {
        cluster_has_begun();
        if (!good)
          for (unsigned b = 0; b < w.split; ++b) machine::store_in_cluster(&state_.bad, b, 1);
        for_each_group<J>(t, [&](int j, unsigned g) {
          if (in_warp() < w.split) machine::store_in_cluster(shared + g, in_warp(), group[j]);
        });
        machine::arrive_in_cluster();
        machine::wait_for_cluster();
        if (state_.bad != 0) return false;
      } else {
        for_each_group<J>(t, [&](int j, unsigned g) {
          if (in_warp() == 0) shared[g] = group[j];
        });
        if (!base::all(good)) return false;
      }
      const uint4 four = reinterpret_cast<const uint4*>(shared)[in_warp()];
      const std::uint32_t read[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) value[i] = has_group(pieces, i) ? read[i] : 0;  // the rest was never written
    }
    out = over_warp<Op>(Op::combine(Op::combine(value[0], value[1]), Op::combine(value[2], value[3])));
    return true;
  }

  template <int J>
  __device__ __forceinline__ void neighbours_largest(unsigned width, std::uint32_t (&leaf)[J]) {
    for (unsigned distance = 1; distance < width; distance *= 2)
#pragma unroll
      for (int j = 0; j < J; ++j)
        leaf[j] = larger_magnitude::combine(leaf[j], __shfl_xor_sync(~0u, leaf[j], static_cast<int>(distance)));
  }

 private:
  static_assert(layout::team_groups == 4 * 32);

  static __device__ __forceinline__ unsigned in_warp() { return threadIdx.x % 32; }
  // The i-th of the four groups of the whole row that this lane sees to.
  static __device__ __forceinline__ bool has_group(unsigned pieces, unsigned i) {
    return (in_warp() * 4 + i) * 32 < pieces;
  }

  // Left and right halves of ever larger ranges meet; both get the value, which is the same in either order.
  template <class Op>
  static __device__ __forceinline__ std::uint32_t over_warp(std::uint32_t value) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
      value = Op::combine(value, __shfl_xor_sync(~0u, value, distance));
    return value;
  }

  // f(j, g) for the groups of this warp, on all its lanes.
  template <int J, class F>
  static __device__ __forceinline__ void for_each_group(const row_team& t, F f) {
#pragma unroll
    for (int j = 0; j < J; ++j) {
      const unsigned first = t.begin + static_cast<unsigned>(j) * blockDim.x + threadIdx.x / 32 * 32;
      if (first < t.end) f(j, first / 32);
    }
  }

  __device__ __forceinline__ void cluster_has_begun() {
    if (given_.work.is_clustered && !cluster_has_begun_) machine::wait_for_cluster();
    cluster_has_begun_ = true;
  }

  template <int J>
  __device__ __forceinline__ bool by_lines(const row_team& t, unsigned row, unsigned set, unsigned pieces,
                                           bool good, const std::uint32_t (&group)[J], std::uint32_t (&value)[4]) {
    const auto& c = given_.what;
    const std::uint32_t e = packet_epoch(base::epoch());
    const unsigned slot = c.map.slot(base::epoch());
    const auto line_of = [&](unsigned g) { return at_own<line>(c, c.map.team_offset(slot, row, set, g)); };
    // Where a lane has failed its group is not told, and the team ends by the poison.
    if (__all_sync(~0u, good))
      for_each_group<J>(t, [&](int j, unsigned g) {
        if (in_warp() == 0) base::put(line_of(g), group[j], e);
      });
    const line* lines[4];
    std::uint64_t data[4] = {};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) lines[i] = has_group(pieces, i) ? line_of(in_warp() * 4 + i) : nullptr;
    if (good) good = base::template get_all<4>(lines, e, data, waiting{c.rank, phase::team, 1});
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] = static_cast<std::uint32_t>(data[i]);
    return base::all(good);
  }

  const fused_arguments<Capacity>& given_;
  fused_state& state_;
  unsigned turn_ = 0;
  bool cluster_has_begun_ = false;
};

}  // namespace xyl
