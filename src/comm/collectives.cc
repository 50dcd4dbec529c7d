// SPDX-License-Identifier: BSD-3-Clause
//
// Collective calls from the user's arguments to the protocols: the checks, the operation, the kind of memory, and,
// on host memory, the chunks.
#include <algorithm>
#include <cstring>

#include "comm/communicator.hpp"
#include "exec/arithmetic_mode.hpp"
#include "exec/dispatch.hpp"
#include "exec/host_transfer.hpp"
#include "proto/exchange_packet.hpp"
#include "proto/one_way.hpp"
#include "proto/reduce_to.hpp"
#include "proto/single_copy.hpp"
#include "proto/two_shot.hpp"

namespace xyl {

namespace {

// Longer pieces go in chunks. Where some only write and others only read, they do it at the same time, and are
// faster with smaller ones; where all do both, fewer meetings are (1M of an allgather between 2 ranks, in chunks of
// 64K 59 us, of 256K 50, of 1M 45).
constexpr std::uint64_t host_move_bytes = 1 << 20, host_one_way_move_bytes = 256 << 10;

}  // namespace

result communicator::collect(const request& r) {
  const std::lock_guard guard(lock_);
  if (inline_.is_like(r)) {
    // Nothing to check but where the buffers lie.
    memory_kind kind = memory_kind::host;
    XYL_TRY(memory_of(r.send, r.recv, kind));
    if (kind == memory_kind::host && windows_.all().empty()) {
      ++calls_;
      host_call_.record = inline_.record;
      host_call_.fingerprint = inline_.fingerprint ^ one_way_history_;
      const default_arithmetic whatever_the_caller_has_set;
      return all_reduce_inline(r);
    }
  }
  XYL_TRY(check_arguments(r, rank_, ranks_));
  chosen_operation op;
  if (is_reduction(r.what)) XYL_TRY(operations_.choose(r, ranks_, op));
  memory_kind kind = memory_kind::host;
  // Every rank uses at least one of its buffers.
  if (r.count > 0)
    XYL_TRY(memory_of(uses_send(r, rank_) ? r.send : r.recv, uses_recv(r, rank_) ? r.recv : r.send, kind));
  if (kind == memory_kind::host && op.scale && op.scale->on_device != nullptr)
    return error(xylInvalidArgument, "%s: the operation's scalar is on the device, the data in host memory",
                 name_of(r.what));
  ++calls_;
  if (is_transfer(r.what)) return kind == memory_kind::host ? transfer_host({&r, 1}) : transfer_device({&r, 1});
  if (is_reduction(r.what)) return kind == memory_kind::host ? reduce_host(r, op) : reduce_device(r, op);
  return kind == memory_kind::host ? move_host(r) : move_device(r);
}

result communicator::keep_operation(request& r) {
  if (!is_reduction(r.what) || r.op < first_created_operation) return {};
  const std::lock_guard guard(lock_);
  chosen_operation op;
  XYL_TRY(operations_.choose(r, ranks_, op));
  r.scale = op.scale;
  return {};
}

// Records are often like the one before, and mixing them takes a while.
std::uint64_t communicator::fingerprint_of(const call_record& record) {
  if (std::memcmp(&record, &fingerprinted_, sizeof record) != 0) {
    fingerprinted_ = record;
    fingerprint_ = fingerprint(record);
  }
  return fingerprint_;
}

void communicator::begin_host_call(const call_record& record) {
  host_call_.record = record;
  host_call_.fingerprint = fingerprint_of(record) ^ one_way_history_;
}

bool communicator::goes_one_way(collective what, std::uint64_t bytes) const {
  return has_root(what) && bytes <= selection_.one_way_bytes && bytes <= host_call_.map.one_way_capacity();
}

template <class F>
result communicator::go_one_way(F run) {
  // Whoever is not told now that the calls differ is told by the next call.
  one_way_history_ = mix64(host_call_.fingerprint);
  is_one_way_ = true;
  ++one_way_calls_;
  const bool good = run();
  is_one_way_ = false;
  return good ? result() : leave_host_call();
}

// Scales pieces of this rank's input into memory that no peer looks at.
const std::byte* communicator::scaled(const chosen_operation& op, const std::byte* input, std::uint64_t stride,
                                      int pieces, std::uint64_t elements) {
  std::byte* const to = host_call_.workspace[rank_] + host_call_.map.scratch_offset(static_cast<unsigned>(rank_));
  const std::uint64_t bytes = elements * facts_of(op.scale->type)->bytes;
  for (int p = 0; p < pieces; ++p)
    scale_on_host(*op.scale, to + static_cast<unsigned>(p) * bytes, input + static_cast<unsigned>(p) * stride,
                  elements);
  return to;
}

result communicator::reduce_host(const request& r, const chosen_operation& op) {
  host_call& c = host_call_;
  begin_host_call(r, op.recorded);
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const int t = element_types::index_of(r.type), o = reduction_operations::index_of(op.combining);
  const host_reduction ranged{element_bytes, reductions_->function[t][o], op.divisor};
  const std::uint64_t bytes = r.count * element_bytes;
  space_->expect_output(bytes);
  if (const auto form = pull_form_for(c.record, bytes); form && !op.scale) return pull_on_host(*form, r, &ranged);
  const default_arithmetic whatever_the_caller_has_set;
  if (goes_one_way(r.what, bytes)) {
    c.count = r.count;
    c.input = static_cast<const std::byte*>(r.send);
    c.output = static_cast<std::byte*>(r.recv);
    if (op.scale && c.count > 0) c.input = scaled(op, c.input, 0, 1, c.count);
    return go_one_way([&] { return one_way_reduce(*space_, c, ranged, r.root); });
  }
  const bool scatters = r.what == collective::reduce_scatter;
  algorithm how = selection_.choose(selection_.host, bytes, r.what == collective::all_reduce);
  if (r.what == collective::all_reduce && how == algorithm::one_shot && !op.scale && bytes > 0 &&
      bytes <= layout::inline_bytes()) {
    inline_ = {ranged, c.record, fingerprint_};
    return all_reduce_inline(r);
  }
  // A tiny contribution travels beside its header; packets are for everybody's result, rings too.
  if (r.what != collective::all_reduce && (scatters || how != algorithm::two_shot)) how = algorithm::one_shot;
  std::uint64_t step =
      chunk_elements(how, c.map, selection_.host.chunk_bytes, element_bytes, r.what == collective::all_reduce);
  const int pieces = scatters ? ranks_ : 1;
  if (op.scale)
    step = std::min(step, c.map.scratch_bytes() / static_cast<unsigned>(pieces) / 16 * 16 / element_bytes);
  const std::uint64_t stride = scatters ? bytes : 0;

  std::uint64_t done = 0;
  do {
    c.count = std::min<std::uint64_t>(step, r.count - done);
    c.input = static_cast<const std::byte*>(r.send) + done * element_bytes;
    c.output = static_cast<std::byte*>(r.recv) + done * element_bytes;
    reduce_target target{stride, r.what == collective::reduce ? r.root : movement::everyone};
    if (op.scale && c.count > 0) {
      c.input = scaled(op, c.input, stride, pieces, c.count);
      target.input_stride = scatters ? c.count * element_bytes : 0;
    }
    bool good = false;
    if (r.what != collective::all_reduce) {
      good = how == algorithm::two_shot ? two_phase_reduce(*space_, c, ranged, r.root)
                                        : direct_reduce(*space_, c, ranged, target);
    } else {
      switch (how) {
        case algorithm::packet:
        case algorithm::two_shot_packet:
          good = host_packet(*space_, c, how == algorithm::two_shot_packet, r.type, op.combining, op.divisor);
          break;
        case algorithm::one_shot:
        case algorithm::line_packet:
        case algorithm::wide_packet:  // never chosen for host memory
          good = one_shot_allreduce(*space_, c, ranged);
          break;
        case algorithm::two_shot:
          good = two_shot_allreduce(*space_, c, ranged);
          break;
        case algorithm::ring:
          good = ring_allreduce(*space_, c, ranged);
          break;
      }
    }
    if (!good) return leave_host_call();
    done += c.count;
  } while (done < r.count);
  return {};
}

result communicator::all_reduce_inline(const request& r) {
  host_call& c = host_call_;
  c.count = r.count;
  c.input = static_cast<const std::byte*>(r.send);
  c.output = static_cast<std::byte*>(r.recv);
  return one_shot_allreduce(*space_, c, inline_.sum) ? result() : leave_host_call();
}

result communicator::move_host(const request& r) {
  host_call& c = host_call_;
  begin_host_call(r, 0);
  const unsigned element_bytes = facts_of(r.type)->bytes;
  movement m = movement_of(r, r.count * element_bytes);
  space_->expect_output(m.output_stride != 0 ? m.bytes * static_cast<unsigned>(ranks_) : m.bytes);
  if (const auto form = pull_form_for(c.record, m.bytes)) return pull_on_host(*form, r, nullptr);
  if (goes_one_way(r.what, m.bytes)) {
    c.input = static_cast<const std::byte*>(r.send);
    c.output = static_cast<std::byte*>(r.recv);
    return go_one_way([&] { return one_way_move(*space_, c, m); });
  }
  if (m.bytes >= selection_.single_copy_bytes) return move_host_directly(r, m);
  const bool uses_packets = selection_.forced == static_cast<std::uint32_t>(algorithm::packet);
  const bool spreads = selection_.forced == static_cast<std::uint32_t>(algorithm::two_shot) && ranks_ > 1 &&
                       r.what == collective::broadcast;
  const std::uint64_t room = uses_packets ? c.map.packet_capacity() : c.map.bulk_stride;
  const bool is_one_way = m.from != movement::everyone || m.to != movement::everyone;
  const std::uint64_t most = is_one_way ? host_one_way_move_bytes : host_move_bytes;
  const std::uint64_t step = std::max<std::uint64_t>(16, std::min(room, most) / 16 * 16) / element_bytes;
  std::uint64_t done = 0;
  do {
    const std::uint64_t elements = std::min<std::uint64_t>(step, r.count - done);
    m.bytes = elements * element_bytes;
    c.input = static_cast<const std::byte*>(r.send) + done * element_bytes;
    c.output = static_cast<std::byte*>(r.recv) + done * element_bytes;
    const bool good = uses_packets ? packet_exchange(*space_, c, m)
                      : spreads    ? spread_broadcast(*space_, c, m)
                                   : exchange(*space_, c, m, m.input_stride == 0 && m.to == movement::everyone);
    if (!good) return leave_host_call();
    done += elements;
  } while (done < r.count);
  return {};
}

// On registered buffers.
result communicator::pull_on_host(pull_form form, const request& r, const host_reduction* ranged) {
  pull_call<host_capacity>& c = host_call_;
  const unsigned element_bytes = facts_of(r.type)->bytes;
  const std::uint64_t all = r.count * element_bytes;
  const std::uint64_t step = form == pull_form::gathered ? gathered_pull_bytes(c.map) : all;
  for (std::uint64_t done = 0; done < all; done += step) {
    c.count = std::min(step, all - done) / element_bytes;
    point_at_windows(c, r, done);
    bool good = false;
    if (ranged != nullptr) {
      const default_arithmetic whatever_the_caller_has_set;
      good = pull_reduce(*space_, c, *ranged, form);
    } else {
      good = pull_exchange(*space_, c, movement_of(r, all), window_use_for(c.record));
    }
    if (!good) return leave_host_call();
  }
  return {};
}

// Without staging. Of an alltoall in place, of which the peers do not know, a rank takes its own pieces aside
// first, in chunks for which there is room: so all alltoalls go in such chunks.
result communicator::move_host_directly(const request& r, movement m) {
  host_call& c = host_call_;
  const std::uint64_t total = m.bytes, ranks = static_cast<unsigned>(ranks_);
  const bool may_overlap = r.what == collective::all_to_all;
  const std::uint64_t step =
      may_overlap ? std::max<std::uint64_t>(64, c.map.scratch_bytes() / ranks / 64 * 64) : total;
  std::byte* const aside = c.workspace[rank_] + c.map.scratch_offset(static_cast<unsigned>(rank_));
  for (std::uint64_t done = 0; done < total; done += m.bytes) {
    m.bytes = std::min(step, total - done);
    c.input = static_cast<const std::byte*>(r.send) + done;
    c.output = static_cast<std::byte*>(r.recv) + done;
    if (may_overlap && r.send == r.recv) {
      for (std::uint64_t p = 0; p < ranks; ++p) std::memcpy(aside + p * m.bytes, c.input + p * total, m.bytes);
      c.input = aside;
      m.input_stride = m.bytes;
    }
    if (!single_copy_exchange(*space_, c, m)) return leave_host_call();
  }
  return {};
}

transfer communicator::host_transfer_of(const request& r, const call_record& record) {
  transfer t = transfer_of(r, fingerprint_of_pair(record));
  t.offered = t.bytes >= selection_.single_copy_bytes;
  return t;
}

result communicator::transfer_host(std::span<const request> all) {
  std::uint64_t received = 0;
  for (const request& r : all)
    if (r.what != collective::send) received += r.count * facts_of(r.type)->bytes;
  space_->expect_output(received);
  if (all.size() == 1) {  // the usual, and worth a way without memory allocation
    const request& r = all[0];
    host_call_.record = record_of(r, 0, false);
    if (!run_transfer(*space_, host_call_, host_transfer_of(r, host_call_.record), 0)) return leave_host_call();
    return {};
  }
  transfers_.clear();
  std::size_t left = all.size();
  bool good = space_->begin_pair();
  for (const bool sends : {true, false})
    for (const request& r : all) {
      if (!good) return leave_host_call();
      if ((r.what == collective::send) != sends) continue;
      const call_record record = record_of(r, 0, false);
      const transfer what = host_transfer_of(r, record);
      if (transfers_.empty()) {
        host_call_.record = record;
        if (left == 1) {
          good = run_transfer(*space_, host_call_, what, 0);
          continue;
        }
        if (host_transfers::goes_at_once(*space_, host_call_, what, good)) {
          --left;
          continue;
        }
      }
      transfers_.push_back({what, record});
    }
  if (good && !transfers_.empty()) good = running_.run(*space_, *waits_, host_call_, transfers_, host_call_.record);
  return good ? result() : leave_host_call();
}

result communicator::transfer_together(std::span<const request> all) {
  if (all.empty()) return {};
  const std::lock_guard guard(lock_);
  memory_kind kind = memory_kind::host;
  for (const request& r : all)
    if (r.count > 0) {
      const void* const buffer = r.what == collective::send ? r.send : r.recv;
      XYL_TRY(memory_of(buffer, buffer, kind));
    }
  calls_ += all.size();
  return kind == memory_kind::host ? transfer_host(all) : transfer_device(all);
}

result communicator::barrier(xylStream_t stream) {
  const std::lock_guard guard(lock_);
  ++calls_;
  request r;
  r.stream = stream;
  if (stream != nullptr && device_) return move_device(r);
  begin_host_call(r, 0);
  if (!xyl::barrier(*space_, host_call_)) return leave_host_call();
  return {};
}

result communicator::create_operation(const void* scalar, int type, int residence, int& op) {
  const type_facts* const facts = facts_of(type);
  if (facts == nullptr) return error(xylInvalidArgument, "xylRedOpCreatePreMulSum: %d is not a data type", type);
  scaling s;
  s.type = type;
  const std::lock_guard guard(lock_);
  if (residence == xylScalarHostImmediate) {
    std::memcpy(&s.bits, scalar, facts->bytes);
  } else if (residence == xylScalarDevice) {
    if (!device_)
      return error(xylInvalidUsage,
                   "xylRedOpCreatePreMulSum: a scalar on the device, but this communicator has none: %s",
                   no_device_reason_.c_str());
    s.on_device = scalar;
  } else {
    return error(xylInvalidArgument, "xylRedOpCreatePreMulSum: %d is not a residence", residence);
  }
  return operations_.create(s, op);
}

result communicator::destroy_operation(int op) {
  const std::lock_guard guard(lock_);
  return operations_.destroy(op);
}

}  // namespace xyl
