// SPDX-License-Identifier: BSD-3-Clause
//
// Large collectives between two devices, as messages: chunk by chunk through one launch, where data comes and is
// worked on at the same time, instead of a launch for each chunk, in which the link rests while others compute.
#include <algorithm>

#include "comm/communicator.hpp"
#include "comm/transfer_shape.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

namespace {

constexpr std::uint64_t least_broadcast = 16 << 20;
// Measured between two H200s, launch by launch / swapped: allreduce 32M 118 / 120 us, 64M 235 / 217, 1G 3827 / 3140;
// allgather 16M each way 67 / 70, 32M 134 / 124; reduce-scatter 66 / 73, 132 / 127.
constexpr std::uint64_t least_allreduce = 48 << 20, least_each_way = 24 << 20;

}  // namespace

bool communicator::goes_as_message(const request& r, std::uint64_t bytes) const {
  if (ranks_ != 2 || on_one_gpu_ || is_staged_ || selection_.forced != selection::automatic) return false;
  switch (r.what) {
    case collective::broadcast:
      return bytes >= least_broadcast;
    case collective::all_gather:
    case collective::all_to_all:
      return bytes >= least_each_way && device_->can_swap(static_cast<xylDataType_t>(r.type), false);
    case collective::all_reduce:
    case collective::reduce_scatter:
      return bytes >= (r.what == collective::all_reduce ? least_allreduce : least_each_way) &&
             device_->can_swap(static_cast<xylDataType_t>(r.type), true);
    default:
      return false;
  }
}

// First a call that moves nothing, in which the ranks find out whether their calls differ.
result communicator::broadcast_as_message(const request& r, std::uint64_t bytes, const call_record& record) {
  XYL_TRY(device_->move({move_form::packet, 1, movement_of(r, 0)}, r.send, r.recv, record, r.stream));
  const bool is_root = rank_ == r.root;
  const transfer_shape shape = shape_of_transfer(bytes, device_->map(), selection_.max_blocks);
  transfer message;
  message.from = static_cast<const std::byte*>(r.send);
  message.to = static_cast<std::byte*>(r.recv);
  message.bytes = bytes;
  message.fingerprint = fingerprint(record);
  message.peer = 1 - rank_;
  message.sends = is_root;
  message.blocks = shape.blocks;
  message.slot_bytes = shape.slot_bytes;
  transfer own = message;
  own.peer = rank_;
  own.first_block = shape.blocks;
  const transfer both[] = {message, own};
  const bool has_own = is_root && r.send != r.recv;
  return device_->run_transfers({both, has_own ? 2u : 1u}, has_own ? 2u * shape.blocks : shape.blocks, record,
                                r.stream);
}

// The same; bytes go each way.
result communicator::swap_messages(const request& r, std::uint64_t bytes, const call_record& record) {
  // A movement of nothing, whatever the call is.
  movement nothing;
  XYL_TRY(device_->move({move_form::packet, 1, nothing}, r.send, r.recv, record, r.stream));
  const transfer_shape shape = shape_of_swap(bytes, device_->map(), selection_.max_blocks);
  if (shape.slot_bytes == 0)
    return error(xylInternalError, "no room to swap %llu bytes", static_cast<unsigned long long>(bytes));
  const std::byte* const input = static_cast<const std::byte*>(r.send);
  std::byte* const output = static_cast<std::byte*>(r.recv);
  const auto of = [bytes](int rank) { return bytes * static_cast<unsigned>(rank); };
  const int peer = 1 - rank_;
  // Where pieces for both ranks lie, or of both.
  const bool is_for_each = r.what == collective::all_to_all || r.what == collective::reduce_scatter;
  const bool is_of_each = r.what == collective::all_to_all || r.what == collective::all_gather;
  device_swap how;
  how.sums = is_reduction(r.what);
  transfer& out = how.both.out;
  out.from = input + (is_for_each ? of(peer) : 0);
  out.bytes = bytes;
  out.fingerprint = fingerprint(record);
  out.peer = peer;
  out.sends = true;
  out.blocks = shape.blocks;
  out.slot_bytes = shape.slot_bytes;
  transfer& in = how.both.in;
  in = out;
  in.sends = false;
  in.to = output + (is_of_each ? of(peer) : 0);
  const std::byte* const own = input + (is_for_each ? of(rank_) : 0);
  how.own = own;
  how.own_to = output + (is_of_each ? of(rank_) : 0);
  return device_->swap(how, own, r.recv, r.count, record, r.stream);
}

}  // namespace xyl
