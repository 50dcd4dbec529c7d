// SPDX-License-Identifier: BSD-3-Clause
//
// Collective calls on device memory: which form, on how many blocks, in which chunks. The choice depends on what
// all ranks agreed on, and on the size of the message.
#include <algorithm>
#include <map>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/transfer_shape.hpp"
#include "exec/dispatch.hpp"
#include "proto/copied.hpp"
#include "proto/stand_in.hpp"

namespace xyl {

namespace {

// Where all ranks share one GPU, or meet in host memory, a piece that all get is written once and read from there:
// as many reads as when it is pushed, but fewer writes, which more than two ranks of one GPU gain by at any size
// that packets are not for.
constexpr std::uint64_t pull_bytes = 64 << 10;

// The largest piece that packets are best for, measured in graphs, packets / one flag a block, in us. Two ranks,
// one GPU each: 128K 4.0 / 5.5, 512K 7.0 / 6.7, broadcast 256K 4.1 / 5.2, 1M 11.6 / 7.5. Four ranks of one GPU:
// allgather 128K 4.3 / 5.4, 256K 6.6 / 5.7, alltoall 5.0 / 6.6, 7.7 / 7.1, broadcast 128K 3.7 / 3.8, 256K 4.3 / 4.2.
// Eight: allgather 64K 6.5 / 8.0, 128K 12.2 / 8.5, alltoall 8.2 / 10.8, 22 / 12.8, broadcast 32K 4.6 / 4.7, 64K
// 5.2 / 4.7.
constexpr std::uint64_t most_packet_bytes(int ranks, collective what) {
  if (ranks <= 2) return 320 << 10;
  const bool is_for_all = what == collective::broadcast;
  if (ranks <= 4) return is_for_all ? 128 << 10 : 160 << 10;
  return is_for_all ? 32 << 10 : 64 << 10;
}

// Elements of whole units in so many bytes, at least one unit.
std::uint64_t elements_in(std::uint64_t bytes, unsigned element_bytes) {
  return std::max<std::uint64_t>(16, bytes / 16 * 16) / element_bytes;
}

}  // namespace

result communicator::reduce_device(const request& r, const chosen_operation& op) {
  const call_record record = record_of(r, op.recorded, true);
  if (waits_->out_of_service()) return explain(record);
  const layout& map = device_->map();
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const std::uint64_t bytes = r.count * element_bytes;
  if (const auto form = pull_form_for(record, bytes); form && !op.scale) return pull_on_device(*form, r, record);
  const bool scatters = r.what == collective::reduce_scatter;
  if (r.what != collective::reduce && !op.scale && copy_engines_move(r, bytes))
    return collect_by_copies(r, bytes, record);
  if (!op.scale && op.combining == xylSum && op.divisor == 1 && goes_as_message(r, bytes))
    return swap_messages(r, bytes, record);
  algorithm how = selection_.choose(
      selection_.device, bytes, r.what == collective::all_reduce && selection_.has_lines_for(r.type, op.recorded));
  // A ring is for everybody's result; a block for each rank is two-shot's first half.
  if (r.what != collective::all_reduce) how = selection::without_ring(how);
  if (scatters && how == algorithm::two_shot) how = algorithm::one_shot;
  if (r.what != collective::all_reduce && how == algorithm::two_shot_packet) how = algorithm::packet;
  std::uint64_t step = r.what == collective::all_reduce
                           ? chunk_of_all_reduce(how, element_bytes)
                           : chunk_elements(how, map, selection_.device.chunk_bytes, element_bytes, false);
  const int pieces = scatters ? ranks_ : 1;
  if (op.scale)
    step = std::min(step, elements_in(map.scratch_bytes() / static_cast<unsigned>(pieces), element_bytes));
  reduce_target target{scatters ? bytes : 0, r.what == collective::reduce ? r.root : movement::everyone};

  std::uint64_t done = 0;
  do {
    const std::uint64_t chunk = std::min<std::uint64_t>(step, r.count - done);
    const void* input = static_cast<const std::byte*>(r.send) + done * element_bytes;
    void* const output = static_cast<std::byte*>(r.recv) + done * element_bytes;
    if (op.scale) {
      XYL_TRY(device_->scale({*op.scale, target.input_stride, pieces, chunk}, input, r.stream, input));
    }
    if (r.what == collective::all_reduce) {
      device_launch shaped = shape_of_all_reduce(how, chunk * element_bytes);
      shaped.ring = seat_;
      XYL_TRY(device_->all_reduce(shaped, input, output, chunk, record, r.stream));
    } else {
      const unsigned blocks = selection_.blocks_for(how, chunk * element_bytes);
      reduce_target now = target;
      if (op.scale && scatters) now.input_stride = chunk * element_bytes;
      const reduce_form form = how == algorithm::packet     ? reduce_form::packet
                               : how == algorithm::two_shot ? reduce_form::two_phase
                                                            : reduce_form::direct;
      XYL_TRY(device_->reduce({form, blocks, now}, input, output, chunk, record, r.stream));
    }
    done += chunk;
  } while (done < r.count);
  return {};
}

// Elements of one launch of an allreduce on device memory, and its shape.
std::uint64_t communicator::chunk_of_all_reduce(algorithm how, unsigned element_bytes) const {
  if (takes_steps(how)) return most_stepped_bytes / element_bytes;
  return chunk_elements(how, device_->map(), selection_.device.chunk_bytes, element_bytes, true);
}

device_launch communicator::shape_of_all_reduce(algorithm how, std::uint64_t bytes) const {
  device_launch shape{how, selection_.blocks_for(how, bytes)};
  if (takes_steps(how)) {
    shape.step_units = two_shot_step(bytes, device_->map(), shape.blocks);
    shape.pulls = bytes >= selection_.device.fetched_bytes;
  }
  return shape;
}

// Through host memory the flags of many steps would take longer than they save.
bool communicator::takes_steps(algorithm how) const {
  return how == algorithm::two_shot && !is_staged_ && can_step(device_->map());
}

bool communicator::copy_engines_move(const request& r, std::uint64_t bytes) const {
  const std::uint64_t threshold = selection_.copy_engine_bytes;
  if (r.what == collective::all_reduce) return bytes >= threshold;
  // With more ranks a broadcast is faster in two phases.
  if (r.what == collective::broadcast && ranks_ > 2) return false;
  return bytes >= threshold / static_cast<unsigned>(std::max(1, ranks_ - 1)) && bytes > 0 && ranks_ > 1 &&
         threshold != UINT64_MAX;
}

// Longer ones than chunks can be counted in one call are cut.
result communicator::collect_by_copies(const request& r, std::uint64_t bytes, const call_record& record) {
  const layout& map = device_->map();
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const bool reduces = r.what == collective::all_reduce, scatters = r.what == collective::reduce_scatter;
  movement how = movement_of(r, bytes);
  if (scatters) how.input_stride = bytes;
  const copied_message whole =
      reduces ? copied_message::cut_sum(bytes, map) : copied_message::cut_piece(bytes, map);
  const std::uint64_t most = copy_step::most_chunks * whole.chunk_bytes;
  for (std::uint64_t done = 0; done < bytes; done += most) {
    how.bytes = std::min(most, bytes - done);
    const std::byte* const input = static_cast<const std::byte*>(r.send) + done;
    std::byte* const output = static_cast<std::byte*>(r.recv) + done;
    XYL_TRY(reduces ? device_->all_reduce_by_copies(input, output, how.bytes / element_bytes, record, r.stream)
                    : device_->move_by_copies(how, scatters, input, output, record, r.stream));
  }
  return {};
}

result communicator::move_device(const request& r) {
  const call_record record = record_of(r, 0, true);
  if (waits_->out_of_service()) return explain(record);
  const layout& map = device_->map();
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const std::uint64_t bytes = r.count * element_bytes;
  if (const auto form = pull_form_for(record, bytes)) return pull_on_device(*form, r, record);
  if (copy_engines_move(r, bytes)) return collect_by_copies(r, bytes, record);
  if (goes_as_message(r, bytes))
    return r.what == collective::broadcast ? broadcast_as_message(r, bytes, record)
                                           : swap_messages(r, bytes, record);
  device_move how{move_form::direct, 1, movement_of(r, bytes)};
  const algorithm like = selection::without_ring(selection_.choose(selection_.device, bytes, false));
  std::uint64_t room = map.bulk_stride;
  if (moves_in_packets(r, bytes)) {
    how.form = move_form::packet;
    room = map.packet_capacity();
  } else if (selection_.forced == selection::automatic && (on_one_gpu_ || is_staged_) &&
             (bytes >= pull_bytes || (on_one_gpu_ && ranks_ > 2)) && how.what.input_stride == 0 &&
             how.what.to == movement::everyone) {
    how.form = move_form::pull;
  } else if (r.what == collective::broadcast && has_shares(like) && ranks_ > 2) {
    how.form = move_form::spread;
    room = map.bulk_stride * static_cast<unsigned>(ranks_ - 1);
  }
  const std::uint64_t step = elements_in(std::min(room, selection_.device.chunk_bytes), element_bytes);

  std::uint64_t done = 0;
  do {
    const std::uint64_t chunk = std::min<std::uint64_t>(step, r.count - done);
    how.what.bytes = chunk * element_bytes;
    how.blocks = selection_.blocks_for(how.form == move_form::packet ? algorithm::packet : like, how.what.bytes);
    XYL_TRY(device_->move(how, static_cast<const std::byte*>(r.send) + done * element_bytes,
                          static_cast<std::byte*>(r.recv) + done * element_bytes, record, r.stream));
    done += chunk;
  } while (done < r.count);
  return {};
}

bool communicator::moves_in_packets(const request& r, std::uint64_t bytes) const {
  if (r.what == collective::barrier) return true;
  const algorithm like = selection_.choose(selection_.device, bytes, false);
  // Who has forced two-shot packets wants packets; a choice by size means shares, of which there are none here:
  // every packet goes to every peer.
  if (selection_.forced != selection::automatic) return uses_packets(like);
  const selection::limits& of = selection_.device;
  const bool is_measured = of.from == selection::origin::defaults && of.ranges == 0 && of.packet_bytes != 0;
  if (!is_measured || (ranks_ > 2 && !on_one_gpu_)) return like == algorithm::packet;
  return bytes <= std::min(most_packet_bytes(ranks_, r.what), device_->map().packet_capacity());
}

// In one launch, but where results pass through workspaces.
result communicator::pull_on_device(pull_form form, const request& r, const call_record& record) {
  pull_call<device_capacity> c;
  c.record = record;
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const std::uint64_t all = r.count * element_bytes;
  const std::uint64_t step = form == pull_form::gathered ? gathered_pull_bytes(device_->map()) : all;
  for (std::uint64_t done = 0; done < all; done += step) {
    const std::uint64_t bytes = std::min(step, all - done);
    c.count = bytes / element_bytes;
    point_at_windows(c, r, done);
    const unsigned blocks = selection_.pull_blocks_for(form, bytes);
    if (is_reduction(r.what))
      XYL_TRY(device_->pull_reduce(form, blocks, c, r.stream));
    else
      XYL_TRY(device_->pull_move(window_use_for(record), blocks, movement_of(r, bytes), c, r.stream));
  }
  return {};
}

// Several launches if they must: one launch has one transfer of a peer and direction, and no more blocks than run
// together. All ranks bring theirs into one order: the n-th of its pair and direction into the n-th round, and in a
// round those whose receiver comes k ranks after the sender, for k in order. Where that is cut into launches is
// each rank's own affair: of the transfers that are not done, both ends of the first are in launches that can run,
// since all before it, in that order, are done.
result communicator::transfer_device(std::span<const request> all) {
  if (waits_->out_of_service()) return explain(record_of(all[0], 0, true));
  struct placed {
    int round, distance;
    const request* what;
  };
  std::vector<placed> order;
  std::map<std::pair<int, bool>, int> rounds;
  for (const request& r : all) {
    const bool sends = r.what == collective::send;
    const int distance = ((sends ? r.root - rank_ : rank_ - r.root) + ranks_) % ranks_;
    order.push_back({rounds[{r.root, sends}]++, distance, &r});
  }
  std::stable_sort(order.begin(), order.end(), [](const placed& a, const placed& b) {
    return a.round != b.round ? a.round < b.round : a.distance < b.distance;
  });
  // A send and a receive of one distance belong together: with one block for both, one would wait behind the other
  // on all ranks.
  const unsigned most = std::max(selection_.max_blocks, 2u);
  std::vector<transfer> together;
  unsigned blocks = 0;
  const auto launch = [&](const request& any) -> result {
    XYL_TRY(device_->run_transfers(together, blocks, record_of(any, 0, true), any.stream));
    together.clear();
    blocks = 0;
    return {};
  };
  for (std::size_t i = 0; i < order.size();) {
    // Those of one round and distance, which are two at most.
    std::size_t end = i;
    std::vector<transfer> next;
    unsigned wanted = 0;
    for (; end < order.size() && order[end].round == order[i].round && order[end].distance == order[i].distance;
         ++end) {
      const request& r = *order[end].what;
      transfer t = transfer_of(r, fingerprint_of_pair(record_of(r, 0, true)));
      const transfer_shape shape = shape_of_transfer(t.bytes, device_->map(), selection_.max_blocks);
      t.blocks = shape.blocks;
      t.slot_bytes = shape.slot_bytes;
      wanted += t.blocks;
      next.push_back(t);
    }
    const bool fits = blocks + wanted <= most && together.size() + next.size() <= device_side::most_transfers;
    if (!together.empty() && (!fits || order[i].round != order[i - 1].round)) XYL_TRY(launch(*order[i - 1].what));
    for (transfer& t : next) {
      t.first_block = static_cast<std::uint16_t>(blocks);
      blocks += t.blocks;
      together.push_back(t);
    }
    i = end;
  }
  return launch(*order.back().what);
}

}  // namespace xyl
