// SPDX-License-Identifier: BSD-3-Clause
//
// The CUDA space of blocks that share rows (see proto/row.hpp). A warp finds the tree's value over its group of 32
// pieces by exchanging registers. Then every block of the team gets every group's value, and every warp goes
// through the rest of the tree by itself. The values travel
//
//   within a block      through shared memory and one barrier;
//   within a cluster    into the shared memory of all its blocks, whose barriers count them (SM 90 and later);
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
  std::uint64_t meeting[2];  // in a cluster: counts what is told
  alignas(16) std::uint64_t told[2][layout::team_groups];
  alignas(16) std::uint32_t group[2][layout::team_groups];
};

// Flagged: nothing asks for the epoch before the lanes have met in join(). It is read where it is needed, from
// shared memory: registers are short.
// Alone: each row is one block's, so that blocks have nothing to tell each other; fused_work::split is 1.
template <int Capacity, int Pieces, bool Flagged = false, bool Alone = false>
class fused_space : public cuda_space<Capacity> {
  using base = cuda_space<Capacity>;

 public:
  static constexpr int pieces_of_lane = Pieces;

  __device__ __forceinline__ fused_space(const fused_arguments<Capacity>& given, fused_state& state)
      : base(given), given_(given), state_(state) {
    if (!Alone && given_.work.is_clustered) {
      if (threadIdx.x == 0)
        for (std::uint64_t& m : state_.meeting) machine::init_meeting(&m);
      // No block writes to another's shared memory before that has begun.
      machine::arrive_in_cluster();
    }
  }

  __device__ __forceinline__ epoch_t epoch() const {
    if constexpr (Flagged)
      return state_of_block.epoch;
    else
      return base::epoch();
  }
  __device__ __forceinline__ unsigned teams() const { return given_.teams; }

  __device__ __forceinline__ void begin_early() {
    machine::fetch_arguments(given_, sizeof(kernel_arguments<Capacity>), sizeof given_);
    base::begin_early();
    if constexpr (Flagged) base::read_turn();
  }
  // What is only for faults can wait until packets are on their way.
  __device__ __forceinline__ void read_turn() { base::learn_epoch(); }

  // The blocks of a cluster have begun by now, and nobody waits for it later, with values to tell.
  __device__ __forceinline__ bool join() {
    if constexpr (!Flagged) {
      base::learn_epoch();
      base::describe_block();
    }
    const bool good = base::join();
    cluster_has_begun();
    return good;
  }

  // A launch that no peer has a part in: it takes no turn and may be followed by the next at once.
  __device__ __forceinline__ void begin_alone() {
    machine::fetch_arguments(given_, sizeof(kernel_arguments<Capacity>), sizeof given_);
    machine::await_earlier_launches();
    machine::let_next_launch_start();
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
    if (!Alone && w.is_clustered) {
      if (!in_cluster(w, t, pieces, good, group, value)) return false;
    } else if (!Alone && w.split > 1) {
      if (!by_lines(t, row, set, pieces, good, group, value)) return false;
    } else if (!in_block(t, pieces, good, group, value)) {
      return false;
    }
    out = over_groups<Op>(value);
    return true;
  }

  static constexpr bool has_warps = true;

  template <class Op, unsigned Width>
  __device__ __forceinline__ std::uint32_t over_group(std::uint32_t leaf) const {
    return over_warp<Op, static_cast<int>(Width)>(leaf);
  }

  // Every warp goes through the whole tree by itself: a lane has eight neighbouring values.
  template <class Op>
  __device__ __forceinline__ std::uint32_t combine_stored(const std::uint32_t* values, unsigned count) const {
    std::uint32_t value[4] = {};
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned first = in_warp() * 8 + half * 4;
      if (first >= count) continue;
      const unit16 four = base::load_peer16(reinterpret_cast<const unit16*>(values + first));
      std::uint32_t word[4];
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) word[k] = first + k < count ? four.word[k] : 0;
      value[2 * half] = Op::combine(word[0], word[1]);
      value[2 * half + 1] = Op::combine(word[2], word[3]);
    }
    return over_groups<Op>(value);
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
  template <class Op, int Width = 32>
  static __device__ __forceinline__ std::uint32_t over_warp(std::uint32_t value) {
#pragma unroll
    for (int distance = 1; distance < Width; distance *= 2)
      value = Op::combine(value, __shfl_xor_sync(~0u, value, distance));
    return value;
  }

  template <class Op>
  static __device__ __forceinline__ std::uint32_t over_groups(const std::uint32_t (&value)[4]) {
    return over_warp<Op>(Op::combine(Op::combine(value[0], value[1]), Op::combine(value[2], value[3])));
  }

  template <int J>
  __device__ __forceinline__ bool in_block(const row_team& t, unsigned pieces, bool good,
                                           const std::uint32_t (&group)[J], std::uint32_t (&value)[4]) {
    std::uint32_t* const shared = state_.group[turn_++ % 2];
    for_each_group<J>(t, [&](int j, unsigned g) {
      if (in_warp() == 0) shared[g] = group[j];
    });
    if (!base::all(good)) return false;
    const uint4 four = reinterpret_cast<const uint4*>(shared)[in_warp()];
    const std::uint32_t read[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) value[i] = has_group(pieces, i) ? read[i] : 0;  // the rest was never written
    return true;
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
    if (!Alone && given_.work.is_clustered && !cluster_has_begun_) machine::wait_for_cluster();
    cluster_has_begun_ = true;
  }

  // A word is a group's value and whether all lanes of the group's block are good. The block's lanes meet first:
  // those without a group are heard too, and none can fall two meetings behind the others. No block is more than
  // one ahead of another, since nobody leaves a meeting before all have told: two halves are enough.
  template <int J>
  __device__ __forceinline__ bool in_cluster(const fused_work& w, const row_team& t, unsigned pieces, bool good,
                                             const std::uint32_t (&group)[J], std::uint32_t (&value)[4]) {
    const unsigned half = turn_ % 2, parity = turn_ / 2 % 2;
    ++turn_;
    std::uint64_t* const told = state_.told[half];
    std::uint64_t* const meeting = &state_.meeting[half];
    const std::uint64_t verdict = std::uint64_t{base::all(good)} << 32;
    if (threadIdx.x == 0) machine::expect_bytes(meeting, (pieces + 31) / 32 * sizeof(std::uint64_t));
    for_each_group<J>(t, [&](int j, unsigned g) {
      if (in_warp() < w.split) machine::send_in_cluster(told + g, in_warp(), verdict | group[j], meeting);
    });
    machine::await_bytes(meeting, parity);
    bool all_good = true;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const bool has = has_group(pieces, i);
      const std::uint64_t word = told[in_warp() * 4 + i];
      value[i] = has ? static_cast<std::uint32_t>(word) : 0;  // the rest was never written
      all_good = all_good && (!has || word >> 32 != 0);
    }
    return __all_sync(~0u, all_good) != 0;
  }

  template <int J>
  __device__ __forceinline__ bool by_lines(const row_team& t, unsigned row, unsigned set, unsigned pieces,
                                           bool good, const std::uint32_t (&group)[J], std::uint32_t (&value)[4]) {
    const auto& c = given_.what;
    const std::uint32_t e = packet_epoch(epoch());
    const unsigned slot = c.map.slot(epoch());
    const auto line_of = [&](unsigned g) { return at_own<line>(c, c.map.team_offset(slot, row, set, g)); };
    // Where a lane has failed its group is not told, and the team ends by the poison.
    if (__all_sync(~0u, good))
      for_each_group<J>(t, [&](int j, unsigned g) {
        if (in_warp() == 0) base::put(line_of(g), group[j], e);
      });
    std::uint64_t data[4] = {};
    // In loads of this kind: others, with one address and a count, take registers that a block more needs.
    const line* lines[4];
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
