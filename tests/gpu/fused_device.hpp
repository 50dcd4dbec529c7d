// SPDX-License-Identifier: BSD-3-Clause
//
// Fused calls on the device side alone, in any form and spreading: launches as a communicator makes them.
#pragma once

#include "comm/fused_shape.hpp"
#include "kernels/fused_limits.hpp"
#include "tests/abi/fused_call.hpp"
#include "tests/gpu/device_copy.hpp"
#include "tests/gpu/device_rank.hpp"
#include "tests/gpu/shared_inputs.hpp"

namespace xyl::gpu_test {

// What a launch is to be like; the rest is the library's choice.
struct wished_shape {
  fused_form form = fused_form::packet;
  unsigned split = 0;  // blocks of a row; 0: the library's choice
  bool clusters = true;
};

class fused_device {
 public:
  static constexpr std::size_t most_input = 8 << 20;

  explicit fused_device(device_rank& r) : r_(r), inputs_(r, most_input) {
    const device_handle& mine = r.side().handle();
    std::vector<std::uint8_t> uuids(16 * static_cast<std::size_t>(r.ranks()));
    MPI_Allgather(mine.uuid, 16, MPI_BYTE, uuids.data(), 16, MPI_BYTE, MPI_COMM_WORLD);
    int sharing = 0;
    for (int p = 0; p < r.ranks(); ++p) sharing += std::equal(mine.uuid, mine.uuid + 16, uuids.data() + 16 * p);
    int have[2][device_fused_forms];
    for (std::size_t form = 0; form < device_fused_forms; ++form) {
      have[0][form] = mine.max_fused_blocks[form] / (2 * sharing);
      have[1][form] = mine.max_clustered_blocks[form] / (2 * sharing);
    }
    MPI_Allreduce(MPI_IN_PLACE, have, 2 * device_fused_forms, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    const int most = static_cast<int>(r.map().blocks);
    for (std::size_t form = 0; form < device_fused_forms; ++form) {
      limits_.blocks[form] = static_cast<unsigned>(std::min(have[0][form], most));
      limits_.clustered[form] = static_cast<unsigned>(std::min(have[1][form], most));
    }
  }

  const fused_limits& limits() const { return limits_; }
  // Whether ranks reach each other's inputs.
  bool can_pull() const { return inputs_.are_reached(); }
  // Where they pull this rank's from.
  std::byte* pulled_input() const { return inputs_.own(); }

  // Brings this rank's input to where the peers pull it from; after the call, an output that was in its place back.
  template <class T>
  void bring_input(test::fused_data<T>& d, const device_copy& at, cudaStream_t stream, bool back = false) const {
    std::byte* const there = at(d.input.raw());
    must(cudaMemcpyAsync(back ? there : inputs_.own(), back ? inputs_.own() : there, d.input.size(),
                         cudaMemcpyDeviceToDevice, stream),
         "the registered input");
  }

  // Enqueues the call; false if no launch can be like this.
  template <class T>
  bool operator()(const wished_shape& wish, test::fused_data<T>& d, const device_copy& at, cudaStream_t stream) {
    const bool is_pulled = pulls(wish.form);
    if (is_pulled && (!can_pull() || !test::goes_in(wish.form, d.f) || d.input.size() > most_input)) return false;
    fused_work w = work_of(d, at);
    if (is_pulled && w.output == w.input) w.output = inputs_.own();
    if (is_pulled) w.input = inputs_.own();
    fused_limits limits = limits_;
    if (!wish.clusters) std::fill(std::begin(limits.clustered), std::end(limits.clustered), 0u);
    fused_shape shape = shape_fused(wish.form, sizeof(T), r_.ranks(), limits, r_.map(), w);
    if (shape.blocks == 0) return false;
    if (wish.split != 0 && !spread_by_hand(wish, sizeof(T), limits, w, shape)) return false;
    const call_record record = record_of(d);
    const std::uint64_t all = uses_shares(wish.form) ? w.share : w.tokens;
    do {
      w.rows = static_cast<std::uint32_t>(std::min(shape.rows, all - w.first));
      must(r_.side().fused({shape.form, shape.blocks, shape.lanes, inputs_.of()}, w, record, stream), "fused");
      w.first += w.rows;
    } while (w.first < all);
    return true;
  }

  // The same in two steps, the first by this algorithm.
  template <class T>
  bool operator()(algorithm first, test::fused_data<T>& d, const device_copy& at, cudaStream_t stream) {
    std::byte* const rows = d.residual_out_buffer() ? at(d.residual_out_buffer())
                            : d.output_buffer()     ? at(d.output_buffer())
                                                    : nullptr;
    constexpr xylDataType_t type = test::code_of<T>();
    const std::uint64_t elements = d.f.tokens * d.f.hidden;
    if (rows == nullptr || d.f.experts || d.f.residual_sharded || d.f.pattern == fused_pattern::all_reduce ||
        !r_.side().can_add(type) || elements * sizeof(T) > r_.capacity(first))
      return false;
    fused_work w = work_of(d, at);
    call_record record = record_of(d);
    device_launch launch{
        first, static_cast<unsigned>(std::clamp<std::uint64_t>(elements * sizeof(T) / 2048, 1, r_.most_blocks()))};
    launch.is_sum = true;
    launch.addend = w.residual;
    must(r_.side().all_reduce(launch, w.input, rows, elements, record, stream), "the first step");
    w.input = rows;
    w.residual = nullptr;
    w.residual_out = nullptr;
    must(r_.side().fused_rows(w, type, stream), "the second step");
    return true;
  }

 private:
  template <class T>
  static call_record record_of(const test::fused_data<T>& d) {
    call_record record;
    record.what = collective::fused_all_reduce;
    record.type = static_cast<std::uint8_t>(test::code_of<T>());
    record.operation = static_cast<std::uint8_t>(d.f.pattern);
    record.device = 1;
    record.count = d.f.tokens;
    return record;
  }
  template <class T>
  fused_work work_of(test::fused_data<T>& d, const device_copy& at) const {
    fused_work w;
    w.input = at(d.input.raw());
    w.residual = d.has_residual() ? at(d.residual.raw()) : nullptr;
    w.weight = at(d.weight.raw());
    w.scale = reinterpret_cast<const float*>(at(d.scale.raw()));
    w.output = d.output_buffer() ? at(d.output_buffer()) : nullptr;
    w.residual_out = d.residual_out_buffer() ? at(d.residual_out_buffer()) : nullptr;
    w.quantised = at(d.quantised.raw());
    w.scales = at(d.scales.raw());
    if (d.f.experts) {
      w.expert_output = at(d.expert_output.raw());
      w.expert_row = d.f.expert_table ? reinterpret_cast<const std::int32_t*>(at(d.expert_row.raw())) : nullptr;
      w.expert_weight = reinterpret_cast<const float*>(at(d.expert_weight.raw()));
      w.experts = d.f.experts;
      w.expert_rows = static_cast<std::uint32_t>(d.f.tokens * d.f.experts);
    }
    w.tokens = d.f.tokens;
    w.share = test::share_of(w.tokens, r_.ranks());
    w.hidden = d.f.hidden;
    w.inverse_hidden = 1.0f / static_cast<float>(w.hidden);
    w.eps = d.f.eps;
    w.pattern = d.f.pattern;
    w.weight_is_float = d.f.weight_is_float;
    w.gemma = d.f.gemma;
    w.residual_sharded = d.f.residual_sharded;
    w.choose_wire();
    return w;
  }

  bool spread_by_hand(const wished_shape& wish, unsigned element_bytes, const fused_limits& limits, fused_work& w,
                      fused_shape& shape) const {
    if (wish.form == fused_form::two_shot_slices && wish.split > 1) return false;
    const unsigned piece = (uses_packets(wish.form) ? 8 : 16) / element_bytes, pieces = w.hidden / piece;
    const int fixed = ranks_of_fused_kernel(wish.form, r_.ranks(), element_bytes, w);
    const unsigned most_lanes = most_fused_lanes(wish.form, fixed);
    w.spread(piece, wish.split);
    w.is_clustered = w.split > 1 && teams_meet(wish.form, w) && limits.has_clusters();
    const unsigned most = (w.is_clustered ? limits.clustered : limits.blocks)[static_cast<int>(wish.form)];
    if (w.split != wish.split || w.split > most || w.split > most_blocks_of_row ||
        w.pieces_of_block > most_lanes * static_cast<unsigned>(fused_pieces_of_lane(wish.form)))
      return false;
    if (w.split > 1 && teams_meet(wish.form, w) && !w.is_clustered)
      shape.rows = std::min<std::uint64_t>(
          shape.rows, layout::team_rows / (uses_shares(wish.form) ? static_cast<unsigned>(r_.ranks()) : 1));
    const std::uint64_t teams =
        (uses_shares(wish.form) ? w.share : w.tokens) *
        (wish.form == fused_form::two_shot_packet ? static_cast<unsigned>(r_.ranks() - 1) : 1);
    shape.blocks = static_cast<unsigned>(std::clamp<std::uint64_t>(teams, 1, most / w.split)) * w.split;
    const unsigned warp_for_headers = uses_packets(wish.form) && fixed == 2 ? 0 : 32;
    shape.lanes = std::min(std::min(w.pieces_of_block, (pieces + 31) / 32 * 32) + warp_for_headers, most_lanes);
    return shape.rows > 0;
  }

  device_rank& r_;
  fused_limits limits_;
  shared_inputs inputs_;
};

}  // namespace xyl::gpu_test
