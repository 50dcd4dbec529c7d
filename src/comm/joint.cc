// SPDX-License-Identifier: BSD-3-Clause
#include "comm/joint.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "comm/explain.hpp"
#include "comm/fused_arguments.hpp"
#include "comm/joint_pieces.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

// One call of all ranks, looked up.
struct joint_group::resolved {
  std::vector<request> of_rank;
  std::vector<chosen_operation> operations;  // of reductions
  std::vector<call_record> records;
};

const void* joint_group::common_to(const communicator& rank) {
  if (!rank.device_ || rank.ranks_ == 1) return nullptr;
  const device_handle& first = rank.device_handles_.front();
  const device_handle& own = rank.device_->handle();
  for (const device_handle& h : rank.device_handles_)
    if (std::memcmp(h.uuid, own.uuid, sizeof own.uuid) != 0 ||
        std::memcmp(h.process, own.process, sizeof own.process) != 0)
      return nullptr;
  // Rank 0's workspace: in this process, and no other communicator's.
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(first.address));
}

joint_group::joint_group(std::vector<joint_part> parts) : parts_(std::move(parts)) {
  std::sort(parts_.begin(), parts_.end(),
            [](const joint_part& a, const joint_part& b) { return a.rank->rank_ < b.rank->rank_; });
  is_whole_ = fits();
}

bool joint_group::fits() const {
  if (parts_.empty() || parts_.size() != static_cast<std::size_t>(parts_.front().rank->ranks_)) return false;
  // One more than others have meets a call that comes later, from another thread.
  for (const joint_part& p : parts_) {
    if (p.calls.size() != parts_.front().calls.size()) return false;
    for (const request& r : p.calls)
      if (r.what == collective::fused_all_reduce && !fits(*p.rank, *r.fused)) return false;
  }
  std::vector<std::span<const request>> transfers;
  for (const joint_part& p : parts_) transfers.push_back(p.transfers);
  std::vector<joint_piece> pieces;
  bool is_complete = false;
  (void)match_transfers(transfers, is_complete, pieces);
  return is_complete;
}

// A sum, and then what each rank can do with it alone.
bool joint_group::fits(const communicator& rank, const fused_request& r) {
  const fused_work& w = r.work;
  if (w.residual_sharded || w.experts != 0) return false;
  return communicator::rows_of_first_step(w) != nullptr &&
         (r.type == xylFloat16 || r.type == xylBfloat16 || r.type == xylFloat32) && rank.device_ != nullptr;
}

result joint_group::resolve(std::size_t call, resolved& out) const {
  for (const joint_part& p : parts_) {
    communicator& c = *p.rank;
    const request& r = p.calls[call];
    chosen_operation op;
    memory_kind kind = memory_kind::host;
    if (r.what == collective::fused_all_reduce) {
      XYL_TRY(c.memory_of(*r.fused, kind));
      out.records.push_back(c.record_of(*r.fused, true));
    } else {
      if (is_reduction(r.what)) XYL_TRY(c.operations_.choose(r, c.ranks_, op));
      if (r.what != collective::barrier)
        XYL_TRY(
            c.memory_of(uses_send(r, c.rank_) ? r.send : r.recv, uses_recv(r, c.rank_) ? r.recv : r.send, kind));
      out.records.push_back(c.record_of(r, op.recorded, true));
    }
    // Registered buffers or others: all the same here.
    out.records.back().send_place = out.records.back().recv_place = 0;
    out.of_rank.push_back(r);
    out.operations.push_back(op);
  }
  return check_alike(out);
}

result joint_group::check_alike(const resolved& call) const {
  const call_record& first = call.records.front();
  for (std::size_t p = 1; p < call.records.size(); ++p)
    if (fingerprint(call.records[p]) != fingerprint(first))
      return error(xylInvalidUsage, "the ranks' calls differ: rank 0 calls %s, rank %zu calls %s",
                   describe_call(first).c_str(), p, describe_call(call.records[p]).c_str());
  return {};
}

result joint_group::run() {
  std::vector<std::unique_lock<call_lock>> locks;
  for (joint_part& p : parts_) locks.emplace_back(p.rank->lock_);

  // All is looked at before anything is enqueued.
  const std::size_t calls = parts_.front().calls.size();
  std::vector<resolved> all(calls);
  for (std::size_t i = 0; i < calls; ++i) XYL_TRY(resolve(i, all[i]));
  std::vector<std::span<const request>> transfers;
  for (const joint_part& p : parts_) transfers.push_back(p.transfers);
  bool is_complete = false;
  std::vector<joint_piece> pieces;
  XYL_TRY(match_transfers(transfers, is_complete, pieces));
  for (joint_part& p : parts_) {
    for (const request& r : p.transfers) {
      memory_kind kind = memory_kind::host;
      const void* const buffer = r.what == collective::send ? r.send : r.recv;
      XYL_TRY(p.rank->memory_of(buffer, buffer, kind));
    }
    p.rank->calls_ += p.calls.size() + p.transfers.size();
    if (p.rank->waits_->out_of_service())
      return p.rank->explain(calls > 0             ? all.front().records.front()
                             : p.transfers.empty() ? call_record{}
                                                   : p.rank->record_of(p.transfers.front(), 0, true));
  }

  XYL_TRY(join_streams(true));
  for (joint_part& p : parts_) XYL_TRY(p.rank->device_->begin_joint(carrier_));
  result enqueued;
  for (std::size_t i = 0; i < calls && enqueued.ok(); ++i) enqueued = enqueue(all[i]);
  if (enqueued.ok() && !pieces.empty()) enqueued = parts_.front().rank->device_->move_jointly(pieces, carrier_);
  // Also after an error: what was enqueued is the named streams' all the same.
  for (joint_part& p : parts_)
    if (result ended = p.rank->device_->end_joint(carrier_); enqueued.ok()) enqueued = std::move(ended);
  result joined = join_streams(false);
  return enqueued.ok() ? std::move(joined) : std::move(enqueued);
}

// One stream carries all: the others come before it, and go on after it.
result joint_group::join_streams(bool before) {
  if (before) {
    bool is_first = true;
    for (const joint_part& p : parts_)
      for (const std::vector<request>* list : {&p.calls, &p.transfers})
        for (const request& r : *list) {
          if (is_first) carrier_ = r.stream;
          is_first = false;
          if (r.stream != carrier_ && std::find(others_.begin(), others_.end(), r.stream) == others_.end())
            others_.push_back(r.stream);
        }
  }
  device_side& device = *parts_.front().rank->device_;
  for (xylStream_t other : others_) XYL_TRY(before ? device.join(carrier_, other) : device.join(other, carrier_));
  return {};
}

result joint_group::enqueue(const resolved& call) {
  const collective what = call.of_rank.front().what;
  // The streams' meeting is all there is to do.
  if (what == collective::barrier) return {};
  if (what == collective::fused_all_reduce) return fused(call);
  return is_reduction(what) ? reduce(call) : move(call);
}

result joint_group::move(const resolved& call) {
  const std::vector<joint_piece> pieces = joint_pieces_of(call.of_rank);
  return pieces.empty() ? result() : parts_.front().rank->device_->move_jointly(pieces, carrier_);
}

result joint_group::reduce(const resolved& call) {
  const request& any = call.of_rank.front();
  const chosen_operation& op = call.operations.front();
  const unsigned element_bytes = facts_of(any.type)->bytes;
  const std::size_t ranks = parts_.size();
  joint_reduction<device_capacity> what;
  what.ranks = static_cast<std::int32_t>(ranks);
  what.scatters = any.what == collective::reduce_scatter;
  const std::uint64_t stride = what.scatters ? any.count * element_bytes : 0;
  const int pieces = what.scatters ? what.ranks : 1;
  std::uint64_t step = any.count;
  if (op.scale) {
    // Scaled inputs lie where no peer looks, in chunks for which there is room.
    const std::uint64_t room = parts_.front().rank->device_->map().scratch_bytes() / static_cast<unsigned>(pieces);
    step = std::min(step, std::max<std::uint64_t>(room / 16, 1) * 16 / element_bytes);
  }
  for (std::uint64_t done = 0; done < any.count; done += step) {
    what.count = std::min(step, any.count - done);
    what.input_stride = op.scale && what.scatters ? what.count * element_bytes : stride;
    std::uintptr_t inputs = what.input_stride, outputs = 0;
    for (std::size_t p = 0; p < ranks; ++p) {
      const request& r = call.of_rank[p];
      const void* input = static_cast<const std::byte*>(r.send) + done * element_bytes;
      if (const auto& scale = call.operations[p].scale)
        XYL_TRY(parts_[p].rank->device_->scale({*scale, stride, pieces, what.count}, input, carrier_, input));
      what.input[p] = static_cast<const std::byte*>(input);
      what.output[p] = r.what == collective::reduce && r.root != static_cast<int>(p)
                           ? nullptr
                           : static_cast<std::byte*>(r.recv) + done * element_bytes;
      inputs |= reinterpret_cast<std::uintptr_t>(what.input[p]);
      outputs |= reinterpret_cast<std::uintptr_t>(what.output[p]);
    }
    what.inputs_aligned = inputs % 16 == 0;
    what.outputs_aligned = outputs % 16 == 0;
    XYL_TRY(parts_.front().rank->device_->reduce_jointly(
        what, static_cast<xylDataType_t>(any.type), static_cast<xylRedOp_t>(op.combining), op.divisor, carrier_));
  }
  return {};
}

// An allreduce that adds the residual and rounds, and the norms of each rank, as in a call that takes two steps.
result joint_group::fused(const resolved& call) {
  const fused_request& any = *call.of_rank.front().fused;
  joint_reduction<device_capacity> what;
  what.ranks = static_cast<std::int32_t>(parts_.size());
  what.count = any.work.tokens * any.work.hidden;
  what.addend = any.work.residual;
  std::uintptr_t inputs = reinterpret_cast<std::uintptr_t>(what.addend), outputs = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const fused_work& w = call.of_rank[p].fused->work;
    what.input[p] = w.input;
    what.output[p] = communicator::rows_of_first_step(w);
    inputs |= reinterpret_cast<std::uintptr_t>(what.input[p]);
    outputs |= reinterpret_cast<std::uintptr_t>(what.output[p]);
  }
  what.inputs_aligned = inputs % 16 == 0;
  what.outputs_aligned = outputs % 16 == 0;
  const auto type = static_cast<xylDataType_t>(any.type);
  if (what.count > 0) XYL_TRY(parts_.front().rank->device_->reduce_jointly(what, type, xylSum, 1, carrier_));
  if (any.work.pattern == fused_pattern::all_reduce) return {};
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    fused_work second = call.of_rank[p].fused->work;
    second.input = what.output[p];
    second.residual = nullptr;
    second.residual_out = nullptr;
    second.share = (second.tokens + parts_.size() - 1) / parts_.size();
    second.choose_wire();
    XYL_TRY(parts_[p].rank->device_->fused_rows(second, type, carrier_));
  }
  return {};
}

}  // namespace xyl
