// SPDX-License-Identifier: BSD-3-Clause
//
// Registering buffers, and finding them again in calls. Registration goes over the control plane: every rank says
// what it has, tries to reach what the others have, and says what came of it; all of them then come to the same
// verdict. Nothing here is fast.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/out_of_memory.hpp"
#include "comm/communicator.hpp"
#include "comm/fused_arguments.hpp"
#include "exec/dispatch.hpp"
#include "peer/introduction.hpp"
#include "peer/shared_buffer.hpp"
#include "proto/flagged.hpp"

namespace xyl {

// Plain bytes.
struct window_offer {
  report state;    // whether this rank can take part
  report sharing;  // whether other processes can be let in
  std::uint64_t bytes;
  std::uint64_t address;
  std::uint64_t offset;  // in host memory's shared buffer
  std::uint32_t kind;    // memory_kind
  std::uint32_t reserved;
  shared_buffer host;
  exported_memory device;
};

namespace {

const char* name_of(std::uint32_t kind) {
  return kind == static_cast<std::uint32_t>(memory_kind::host) ? "host" : "device";
}

// The first rank's that failed; -1: nobody's.
template <class Of>
int first_failure(int ranks, Of report_of) {
  for (int p = 0; p < ranks; ++p)
    if (report_of(p).code != xylSuccess) return p;
  return -1;
}

// A peer wrote it: it need not end.
int length_of(const report& r) { return static_cast<int>(::strnlen(r.text, sizeof r.text)); }

}  // namespace

// First as every call: that the others have called something else is found before anybody waits for a board.
result communicator::meet_for_window(collective what, std::uint64_t number) {
  ++calls_;
  call_record record;
  record.what = what;
  record.count = number;
  record.selection = selection_hash_;
  begin_host_call(record);
  return xyl::barrier(*space_, host_call_) ? result() : leave_host_call();
}

// What this rank has to say of its buffer.
result communicator::offer_window(void* buffer, std::size_t bytes, window& made, window_offer& mine) {
  made.base = static_cast<std::byte*>(buffer);
  made.bytes = mine.bytes = bytes;
  mine.address = reinterpret_cast<std::uintptr_t>(buffer);
  if (bytes > window_place::most_bytes || bytes > PTRDIFF_MAX - mine.address)
    return error(xylInvalidArgument, "xylCommRegister: %zu bytes exceed the address space (negative size?)", bytes);
  if (windows_.overlaps(made.base, bytes))
    return error(xylInvalidArgument,
                 "xylCommRegister: some of the %zu bytes at %p are registered already; deregister them first",
                 bytes, buffer);
  if (windows_.next_number() >= window_place::most_windows)
    return error(xylInvalidUsage, "xylCommRegister: %llu buffers are registered already; no more are possible",
                 static_cast<unsigned long long>(window_place::most_windows));
  XYL_TRY(memory_of(buffer, buffer, made.kind));
  mine.kind = static_cast<std::uint32_t>(made.kind);
  made.own = allocation_of(buffer, bytes);
  result shared;
  if (made.kind != memory_kind::host) {
    shared = device_->export_memory(buffer, mine.device);
  } else if (made.own == nullptr || made.own->device != nullptr) {
    shared = error(xylInvalidUsage, "its buffer is not in memory that xylMemAlloc gave out");
  } else {
    mine.offset = static_cast<std::uint64_t>(made.base - made.own->data());
    shared = shared_buffer::of(made.own->host, mine.host);
  }
  mine.sharing = report::of(shared);
  return {};
}

result communicator::import_window(std::span<const window_offer> offers, window& made) {
  if (made.kind != memory_kind::host && is_staged_)
    return error(xylSystemError, "GPUs do not reach into each other's memory: %s", staging_reason_.c_str());
  for (int p = 0; p < ranks_; ++p) {
    const auto at = static_cast<std::size_t>(p);
    const window_offer& offer = offers[at];
    const bool same_process = peers_->same_process(p);
    if (!same_process && offer.sharing.code != xylSuccess)
      return error(xylSystemError, "rank %d: %.*s", p, length_of(offer.sharing), offer.sharing.text);
    if (made.kind != memory_kind::host) {
      void* opened = nullptr;
      XYL_TRY(device_->open_memory(offer.device, p, same_process, made.of_rank[at], opened));
      if (opened != nullptr) made.imported.push_back(opened);
    } else if (same_process) {
      made.of_rank[at] = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(offer.address));
    } else {
      // A peer's numbers become an address only as far as the kernel vouches for the memory.
      if (offer.offset > offer.host.bytes || offer.bytes > offer.host.bytes - offer.offset)
        return error(xylSystemError, "rank %d offers bytes beyond its memory", p);
      XYL_TRY(offer.host.open(peers_->process_number(p), made.adopted[at]));
      made.of_rank[at] = made.adopted[at].data() + offer.offset;
    }
  }
  return {};
}

result communicator::exchange_reports(const result& mine, std::span<report> all) {
  const report own = report::of(mine);
  return control_->of_all(&own, all.data(), sizeof own, own_control().call.epoch);
}

result communicator::register_window(void* buffer, std::size_t bytes, std::uint64_t& handle) {
  const std::lock_guard guard(lock_);
  // All room that is needed between the exchanges: a rank without memory must still come to the others.
  const auto ranks = static_cast<std::size_t>(ranks_);
  std::vector<window_offer> offers(ranks);
  std::vector<report> reports(ranks);
  auto made = std::make_unique<window>();
  made->of_rank.resize(ranks);
  made->adopted.resize(ranks);
  made->imported.reserve(ranks);
  {
    const std::lock_guard change(windows_guard_);
    windows_.reserve();
  }
  XYL_TRY(meet_for_window(collective::window_register, 0));

  window_offer mine;
  std::memset(&mine, 0, sizeof mine);
  result ready = or_out_of_memory([&] { return offer_window(buffer, bytes, *made, mine); });
  mine.state = report::of(ready);
  if (!control_->of_all(&mine, offers.data(), sizeof mine, own_control().call.epoch).ok()) return leave_host_call();
  if (!ready.ok()) return ready;
  if (const int p =
          first_failure(ranks_, [&](int r) -> const report& { return offers[static_cast<unsigned>(r)].state; });
      p >= 0) {
    const report& theirs = offers[static_cast<std::size_t>(p)].state;
    return error(xylRemoteError, "xylCommRegister: rank %d could not: %.*s", p, length_of(theirs), theirs.text);
  }
  for (int p = 1; p < ranks_; ++p) {
    const window_offer &first = offers[0], &other = offers[static_cast<std::size_t>(p)];
    if (other.bytes != first.bytes || other.kind != first.kind)
      return error(xylInvalidUsage,
                   "xylCommRegister: rank 0 registers %llu bytes of %s memory, rank %d %llu bytes of %s memory; a "
                   "window is the same on all ranks. Nothing is registered",
                   static_cast<unsigned long long>(first.bytes), name_of(first.kind), p,
                   static_cast<unsigned long long>(other.bytes), name_of(other.kind));
  }

  result reached = or_out_of_memory([&] { return import_window(offers, *made); });
  if (!exchange_reports(reached, reports).ok()) {
    close_window(*made);
    return leave_host_call();
  }
  const int p = first_failure(ranks_, [&](int r) -> const report& { return reports[static_cast<unsigned>(r)]; });
  if (p >= 0) {
    close_window(*made);
    const report& theirs = reports[static_cast<std::size_t>(p)];
    made->why_staged.assign(1, '?');
    // For want of memory it goes unsaid.
    static_cast<void>(or_out_of_memory([&] {
      made->why_staged =
          format_text("rank %d cannot reach all ranks' buffers: %.*s", p, length_of(theirs), theirs.text);
      log_line(log_level::info, rank_, "registered buffer of %zu bytes: calls stage it, since %s", bytes,
               made->why_staged.c_str());
      return result();
    }));
  }
  const std::lock_guard change(windows_guard_);
  handle = windows_.add(std::move(made)).handle;
  return {};
}

result communicator::deregister_window(std::uint64_t handle) {
  const std::lock_guard guard(lock_);
  if (windows_.find(handle) == nullptr)
    return error(xylInvalidArgument,
                 "xylCommDeregister: the handle is of no buffer that is registered with this communicator");
  std::vector<report> reports(static_cast<std::size_t>(ranks_));
  result done = meet_for_window(collective::window_deregister, window_table::number_of(handle) + 1);
  // What this rank has enqueued may still be at its peers' memory, and waits for them to be done with its own.
  if (device_ && windows_.find(handle)->kind != memory_kind::host)
    if (result drained = device_->drain(); done.ok()) done = std::move(drained);
  std::unique_ptr<window> gone;
  {
    const std::lock_guard change(windows_guard_);
    gone = windows_.remove(handle);
  }
  close_window(*gone);
  XYL_TRY(std::move(done));
  // Nobody's memory is freed before everybody has let go of it.
  if (!exchange_reports({}, reports).ok()) return leave_host_call();
  return {};
}

// Lets go of the peers' memory.
void communicator::close_window(window& w) {
  w.of_rank.clear();
  w.adopted.clear();
  for (void* opened : w.imported) device_->close_memory(opened);
  w.imported.clear();
}

// Buffers that all ranks use, and of them those that some algorithm uses in place. Where an input may lie in its
// rank's output, its own place would differ on all ranks: there the output's stands for it. Outputs of movements
// count where inputs are in no window.
void communicator::find_places(const request& r, call_record& record) const {
  if (r.count == 0 || windows_.all().empty()) return;
  const std::uint64_t piece = r.count * facts_of(r.type)->bytes, all = piece * static_cast<unsigned>(ranks_);
  const auto* const recv = static_cast<const std::byte*>(r.recv);
  const auto place = [&](const void* memory, std::uint64_t bytes) {
    return windows_.place_of(memory, bytes, record.device != 0);
  };
  switch (r.what) {
    case collective::all_reduce:
      record.send_place = place(r.send, piece);
      record.recv_place = place(r.recv, piece);
      break;
    case collective::reduce:
      record.send_place = place(r.send, piece);
      break;
    case collective::broadcast:
      record.recv_place = place(r.recv, piece);
      break;
    case collective::reduce_scatter:
      record.send_place = place(r.send, all);
      break;
    case collective::all_gather:
      if (r.send == recv + static_cast<unsigned>(rank_) * piece) {
        record.send_place = place(recv, all);
        if (record.send_place != 0) record.send_place |= window_place::in_place;
      } else {
        record.send_place = place(r.send, piece);
        if (record.send_place == 0) record.recv_place = place(recv, all);
      }
      break;
    case collective::all_to_all:
      record.send_place = place(r.send, all);
      if (record.send_place != 0 && r.send == r.recv) record.send_place |= window_place::in_place;
      if (record.send_place == 0) record.recv_place = place(recv, all);
      break;
    default:
      break;
  }
}

std::optional<pull_form> communicator::pull_form_for(const call_record& record, std::uint64_t bytes) const {
  const bool in_place = (record.send_place & window_place::in_place) != 0, has_inputs = record.send_place != 0;
  const selection::limits& of = record.device ? selection_.device : selection_.host;
  switch (record.what) {
    case collective::all_reduce:
      if (!has_inputs) return std::nullopt;
      return selection_.choose_pull(of, bytes, record.recv_place != 0, record.send_place == record.recv_place);
    case collective::reduce:
      return has_inputs ? selection_.choose_pull(of, bytes, false, false) : std::nullopt;
    case collective::broadcast:
      // Between more GPUs the root's links are what everybody waits for: there others pass on what they have.
      if (record.recv_place == 0 || (record.device && ranks_ > 2 && !on_one_gpu_)) return std::nullopt;
      break;
    case collective::all_to_all:
      // Everybody's own pieces are where others' are to go.
      if (in_place) return std::nullopt;
      [[fallthrough]];
    default:
      if (!has_inputs && record.recv_place == 0) return std::nullopt;
      bytes *= static_cast<unsigned>(ranks_);
  }
  if (ranks_ == 1 || bytes < of.pull_bytes) return std::nullopt;
  return pull_form::one_shot;
}

window_use communicator::window_use_for(const call_record& record) {
  if (record.what == collective::broadcast) return window_use::root_output;
  return record.send_place != 0 ? window_use::inputs : window_use::outputs;
}

// Of what lies in a window, and whether an output lies there too: then some of it is gone before all have read it.
std::uint64_t communicator::place_of_input(const fused_request& r, bool device) const {
  const fused_work& w = r.work;
  if (ranks_ == 1 || w.experts != 0 || w.tokens == 0 || windows_.all().empty()) return 0;
  std::uint64_t place = windows_.place_of(w.input, w.tokens * w.hidden * r.element_bytes, device);
  if (place != 0 && (w.output == w.input || w.residual_out == w.input)) place |= window_place::in_place;
  return place;
}

// Sharded residuals are known to their owners alone, so only these can finish rows.
std::optional<fused_form> communicator::fused_pull_form_for(const fused_request& r,
                                                            const call_record& record) const {
  if (record.send_place == 0) return std::nullopt;
  const std::uint64_t bytes = r.work.tokens * r.work.hidden * r.element_bytes;
  const bool one_reads_a_row = r.work.residual_sharded || (record.send_place & window_place::in_place) != 0;
  return selection_.choose_fused_pull(record.device != 0, bytes, one_reads_a_row);
}

void communicator::find_inputs(const call_record& record, const std::byte** input_of) const {
  for (int p = 0; p < ranks_; ++p) input_of[p] = windows_.at(record.send_place, p);
}

// `done` bytes of every piece have been dealt with. c.record: the call's.
template <int Capacity>
void communicator::point_at_windows(pull_call<Capacity>& c, const request& r, std::uint64_t done) const {
  const std::uint64_t piece = r.count * facts_of(r.type)->bytes;
  const bool in_place = (c.record.send_place & window_place::in_place) != 0;
  const bool has_block_for_us = r.what == collective::reduce_scatter || r.what == collective::all_to_all;
  const bool has_block_of_us = r.what == collective::all_gather || r.what == collective::all_to_all;
  c.input = static_cast<const std::byte*>(r.send) + done;
  c.output = uses_recv(r, rank_) ? static_cast<std::byte*>(r.recv) + done : nullptr;
  std::uintptr_t inputs = 0, outputs = reinterpret_cast<std::uintptr_t>(c.output);
  for (int p = 0; p < ranks_; ++p) {
    const auto block = static_cast<unsigned>(has_block_for_us ? rank_ : in_place ? p : 0);
    c.input_of[p] = c.record.send_place != 0 ? windows_.at(c.record.send_place, p) + block * piece + done : nullptr;
    c.output_of[p] = c.record.recv_place != 0
                         ? windows_.at(c.record.recv_place, p) +
                               (has_block_of_us ? static_cast<unsigned>(rank_) * piece : 0) + done
                         : nullptr;
    inputs |= reinterpret_cast<std::uintptr_t>(c.input_of[p]);
    outputs |= reinterpret_cast<std::uintptr_t>(c.output_of[p]);
  }
  if (c.record.recv_place == 0) c.output_of[rank_] = c.output;
  c.inputs_aligned = inputs % 16 == 0;
  c.outputs_aligned = outputs % 16 == 0;
}
template void communicator::point_at_windows(pull_call<host_capacity>&, const request&, std::uint64_t) const;
template void communicator::point_at_windows(pull_call<device_capacity>&, const request&, std::uint64_t) const;

}  // namespace xyl
