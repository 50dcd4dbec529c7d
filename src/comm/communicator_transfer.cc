// SPDX-License-Identifier: BSD-3-Clause
//
// The sends and receives of a group: in any order, on both kinds of memory, on several streams, and also from a
// rank to itself. What the two ends of each pair do must not depend on what else their ranks do: so all of one kind
// of memory goes on together, device memory first, because that only enqueues.
#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/explain.hpp"
#include "comm/fused_arguments.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

// The n-th send to this rank itself goes into its n-th receive from itself.
result communicator::copy_to_self(const std::vector<request>& sends, const std::vector<request>& receives) {
  if (sends.size() != receives.size())
    return error(xylInvalidUsage,
                 "the group has %zu sends of rank %d to itself and %zu receives: they come in pairs", sends.size(),
                 rank_, receives.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const request &s = sends[i], &r = receives[i];
    if (s.count != r.count || s.type != r.type)
      return error(xylInvalidUsage, "rank %d sends itself %s and receives %s", rank_,
                   describe_call(record_of(s, 0, false)).c_str(), describe_call(record_of(r, 0, false)).c_str());
    if (s.count == 0) continue;
    const std::size_t bytes = s.count * facts_of(s.type)->bytes;
    memory_kind kind = memory_kind::host;
    XYL_TRY(memory_of(s.send, r.recv, kind));
    if (kind == memory_kind::host) {
      std::memmove(r.recv, s.send, bytes);
    } else {
      if (s.stream != r.stream) XYL_TRY(device_->join(r.stream, s.stream));
      XYL_TRY(device_->copy(r.recv, s.send, bytes, r.stream));
      if (s.stream != r.stream) XYL_TRY(device_->join(s.stream, r.stream));
    }
  }
  return {};
}

result communicator::transfer_group(std::span<const request> all) {
  const auto with_self = [this](const request& r) { return r.root == rank_; };
  if (!device_ && std::none_of(all.begin(), all.end(), with_self)) return transfer_together(all);
  std::vector<request> to_self, from_self, on_host, on_device;
  for (const request& r : all) {
    const bool sends = r.what == collective::send;
    if (r.root == rank_) {
      (sends ? to_self : from_self).push_back(r);
      continue;
    }
    memory_kind kind = memory_kind::host;
    const void* const buffer = sends ? r.send : r.recv;
    if (r.count > 0) {
      const std::lock_guard guard(lock_);
      XYL_TRY(memory_of(buffer, buffer, kind));
    }
    (kind == memory_kind::host ? on_host : on_device).push_back(r);
  }
  {
    const std::lock_guard guard(lock_);
    XYL_TRY(copy_to_self(to_self, from_self));
  }
  if (!on_device.empty()) XYL_TRY(transfer_on_streams(on_device));
  return transfer_together(on_host);
}

bool communicator::works_on_device(const request& r) const {
  if (!device_) return false;
  if (r.what == collective::barrier) return r.stream != nullptr;
  if (r.what == collective::fused_all_reduce)
    return r.fused->count_of_buffers > 0 && device_->classify(r.fused->buffers[0].begin) == memory_kind::device;
  return r.count > 0 && device_->classify(uses_send(r, rank_) ? r.send : r.recv) == memory_kind::device;
}

result communicator::lend_stream(bool before, std::span<const xylStream_t> named, xylStream_t& own) {
  const std::lock_guard guard(lock_);
  own = device_ ? device_->own_stream() : nullptr;
  for (xylStream_t other : named)
    if (device_) XYL_TRY(before ? device_->join(own, other) : device_->join(other, own));
  return {};
}

// One stream carries all: the others come before it, and go on after it.
result communicator::transfer_on_streams(std::vector<request> all) {
  const xylStream_t carrier = all.front().stream;
  std::vector<xylStream_t> others;
  for (request& r : all) {
    if (r.stream != carrier && std::find(others.begin(), others.end(), r.stream) == others.end())
      others.push_back(r.stream);
    r.stream = carrier;
  }
  const auto join_all = [&](bool before) -> result {
    const std::lock_guard guard(lock_);
    for (xylStream_t other : others)
      XYL_TRY(before ? device_->join(carrier, other) : device_->join(other, carrier));
    return {};
  };
  XYL_TRY(join_all(true));
  XYL_TRY(transfer_together(all));
  return join_all(false);
}

}  // namespace xyl
