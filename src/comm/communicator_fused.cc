// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce of a communicator: which form, how many rows a launch, and the calls on host and device
// memory. Everything that peers must agree on depends on what is equal on all ranks: the arguments in the
// fingerprint, the selection table, and what the devices told each other at initialisation.
#include <algorithm>

#include "comm/communicator.hpp"
#include "comm/fused_arguments.hpp"
#include "exec/arithmetic_mode.hpp"
#include "exec/host_fused.hpp"

namespace xyl {

namespace {

// Measured with rows of 14 KB, pushed / pulled: 4 ranks 64 rows 16.7 / 16.9 us, 128 29.7 / 24.7; 8 ranks 32
// rows 17.9 / 19.6, 64 35 / 28, 128 64 / 52.
constexpr std::uint64_t least_pulled_first_step = 768 << 10;

fused_form form_of(algorithm how) {
  if (how == algorithm::packet) return fused_form::packet;
  if (how == algorithm::two_shot_packet) return fused_form::two_shot_packet;
  return how == algorithm::one_shot ? fused_form::one_shot : fused_form::two_shot;
}

}  // namespace

result communicator::fused_all_reduce(fused_request r, xylStream_t stream) {
  const std::lock_guard guard(lock_);
  memory_kind kind = memory_kind::host;
  XYL_TRY(memory_of(r, kind));
  fused_work& w = r.work;
  w.share = (w.tokens + static_cast<unsigned>(ranks_) - 1) / static_cast<unsigned>(ranks_);
  w.choose_wire();
  ++calls_;
  return kind == memory_kind::host ? fused_host(r) : fused_device(r, stream);
}

// All buffers must be of one kind.
result communicator::memory_of(const fused_request& r, memory_kind& kind) const {
  kind = memory_kind::host;
  for (unsigned i = 0; i < r.count_of_buffers; ++i) {
    const fused_request::buffer& b = r.buffers[i];
    if (!device_) {
      if (device_memory_.holds(b.begin))
        return error(xylInvalidArgument,
                     "fused allreduce: %s is in device memory, which this communicator cannot use: %s", b.name,
                     no_device_reason_.c_str());
      continue;
    }
    const memory_kind one = device_->classify(b.begin);
    if (one == memory_kind::other_device)
      return error(xylInvalidArgument,
                   "fused allreduce: %s lies in the memory of another device than this communicator's (%d)", b.name,
                   device_number_);
    if (i > 0 && one != kind)
      return error(xylInvalidArgument,
                   "fused allreduce: %s is in %s memory and %s in %s memory; all buffers must be the same",
                   r.buffers[0].name, kind == memory_kind::host ? "host" : "device", b.name,
                   one == memory_kind::host ? "host" : "device");
    kind = one;
  }
  return {};
}

call_record communicator::record_of(const fused_request& r, bool device) const {
  call_record record;
  r.describe(record);
  record.device = device ? 1 : 0;
  record.selection = selection_hash_;
  record.send_place = place_of_input(r, device);
  return record;
}

// Sharded residuals are known to their owners alone, so only these can finish rows.
fused_form communicator::fused_form_for(const fused_request& r, const selection::limits& limits) const {
  if (ranks_ == 1) return fused_form::one_shot;
  if (r.work.residual_sharded) return fused_form::two_shot;
  const std::uint64_t bytes = r.work.tokens * r.work.hidden * r.element_bytes;
  const algorithm how = selection_.choose(limits, bytes, false);
  // What rows cost is not what the same bytes cost; but who wishes for something else has it.
  const bool is_wished = selection_.forced != selection::automatic || limits.from == selection::origin::variable;
  if (&limits == &selection_.host || is_wished) return form_of(how);
  if (fits_slices(r)) return fused_form::two_shot_slices;
  // Among more than two ranks rows in packets are worth it longer than the same bytes.
  const bool in_packets = uses_packets(how) || (ranks_ > 2 && limits.two_shot_packet_bytes != 0 &&
                                                bytes < selection_.fused_two_shot_packet_bytes);
  if (!in_packets) return form_of(how);
  if (bytes <= selection_.fused_packet_bytes) return fused_form::packet;
  if (ranks_ > 2 && bytes < selection_.fused_two_shot_packet_bytes) return fused_form::two_shot_packet;
  return ranks_ <= 4 ? fused_form::one_shot : fused_form::two_shot;
}

// Where rows are cut into slices; not where somebody wishes for something else.
bool communicator::fits_slices(const fused_request& r) const {
  const std::uint64_t bytes = r.work.tokens * r.work.hidden * r.element_bytes;
  if (bytes < selection_.fused_slices_bytes || bytes > selection_.most_fused_slices_bytes ||
      r.work.residual_sharded || selection_.forced != selection::automatic ||
      selection_.device.from == selection::origin::variable)
    return false;
  fused_work as_if = r.work;
  return shape_fused(fused_form::two_shot_slices, r.element_bytes, ranks_, fused_limits_, device_->map(), as_if)
             .blocks != 0;
}

result communicator::does_not_fit(const fused_request& r) const {
  return error(xylInvalidArgument,
               "fused allreduce: rows of %u elements of %u bytes do not fit in the workspace that %d ranks share",
               r.work.hidden, r.element_bytes, ranks_);
}

result communicator::fused_host(fused_request& r) {
  pull_call<host_capacity>& c = host_call_;
  fused_work& w = r.work;
  begin_host_call(record_of(r, false));
  const std::optional<fused_form> pulled = fused_pull_form_for(r, c.record);
  fused_form form = pulled.value_or(fused_form_for(r, selection_.host));
  if (pulled) find_inputs(c.record, c.input_of);
  // Hosts have no packets: see host_fused.
  if (form == fused_form::packet) form = fused_form::one_shot;
  if (form == fused_form::two_shot_packet) form = fused_form::two_shot;
  w.spread(16 / r.element_bytes, 1);
  const std::uint64_t row = std::uint64_t{w.hidden} * r.element_bytes;
  const bool in_shares = uses_shares(form);
  // What a row takes of the workspace.
  const std::uint64_t staged = (pulled ? 0 : row) + (in_shares ? w.wire_row_bytes(r.element_bytes) : 0);
  std::uint64_t most = staged == 0 ? w.tokens : c.map.bulk_stride / staged;
  if (most == 0) return does_not_fit(r);

  space_->expect_output(w.tokens * row);
  const default_arithmetic whatever_the_caller_has_set;
  const std::uint64_t all = in_shares ? w.share : w.tokens;
  // Launches whose data stays in the second-level cache. What is pulled lies where it lies.
  constexpr std::uint64_t launch_bytes = 256 << 10;
  const std::uint64_t shares = in_shares ? static_cast<unsigned>(ranks_) : 1;
  if (!pulled) most = std::clamp<std::uint64_t>(launch_bytes / (row * shares), 1, most);
  do {
    w.rows = static_cast<std::uint32_t>(std::min(most, all - w.first));
    if (!host_fused(*space_, c, w, form, c.input_of, r.type, *rows_)) return leave_host_call();
    w.first += w.rows;
  } while (w.first < all);
  return {};
}

// Where many rows are finished in two steps: an allreduce that adds the residual and rounds, spread over as much of
// the device as any, and norms in a launch that no peer has a part in.
bool communicator::takes_two_steps(const fused_request& r) const {
  const fused_work& w = r.work;
  if (w.pattern == fused_pattern::all_reduce || w.residual_sharded || w.experts != 0 || ranks_ == 1) return false;
  if (fits_slices(r)) return false;
  if (rows_of_first_step(w) == nullptr || !device_->can_add(static_cast<xylDataType_t>(r.type))) return false;
  return w.tokens * w.hidden * r.element_bytes >= selection_.two_step_bytes;
}

// Where the rounded sums go: to the next residual, or to where the norm will be.
std::byte* communicator::rows_of_first_step(const fused_work& w) {
  return w.residual_out ? w.residual_out : w.output;
}

result communicator::fused_in_two_steps(const fused_request& r, const call_record& record, xylStream_t stream) {
  const fused_work& w = r.work;
  // Pulled where an allreduce in place would be: then it does not matter which rows the inputs lie in.
  const std::uint64_t bytes = w.tokens * w.hidden * r.element_bytes;
  if (record.send_place != 0 && bytes >= least_pulled_first_step &&
      selection_.choose_pull(selection_.device, bytes, false, true))
    XYL_TRY(pulled_first_step(r, record, stream));
  else
    XYL_TRY(pushed_first_step(r, record, stream));
  fused_work second = w;
  second.input = rows_of_first_step(w);
  second.residual = nullptr;
  second.residual_out = nullptr;
  return device_->fused_rows(second, static_cast<xylDataType_t>(r.type), stream);
}

// The inputs are registered: nobody's is pushed. Results come from their owners' workspaces, as it is not known
// whether these rows are registered on all ranks.
result communicator::pulled_first_step(const fused_request& r, const call_record& record, xylStream_t stream) {
  const fused_work& w = r.work;
  pull_call<device_capacity> c;
  c.record = record;
  const std::byte* inputs[device_capacity] = {};
  find_inputs(record, inputs);
  const std::uint64_t all = w.tokens * w.hidden * r.element_bytes, step = gathered_pull_bytes(device_->map());
  for (std::uint64_t done = 0; done < all; done += step) {
    const std::uint64_t bytes = std::min(step, all - done);
    c.count = bytes / r.element_bytes;
    c.inputs_aligned = true;
    for (int p = 0; p < ranks_; ++p) {
      c.input_of[p] = inputs[p] + done;
      c.inputs_aligned = c.inputs_aligned && is_aligned(c.input_of[p], 16);
    }
    c.input = c.input_of[rank_];
    c.output = c.output_of[rank_] = rows_of_first_step(w) + done;
    c.outputs_aligned = is_aligned(c.output, 16);
    c.addend = w.residual ? w.residual + done : nullptr;
    constexpr pull_form form = pull_form::gathered;
    XYL_TRY(device_->pull_reduce(form, selection_.pull_blocks_for(form, bytes), c, stream));
  }
  return {};
}

result communicator::pushed_first_step(const fused_request& r, const call_record& record, xylStream_t stream) {
  const fused_work& w = r.work;
  const std::uint64_t elements = w.tokens * w.hidden;
  algorithm how = selection::without_ring(selection_.choose(selection_.device, elements * r.element_bytes, false));
  if (how == algorithm::packet) how = algorithm::two_shot_packet;  // one-shot packets take no addend
  const std::uint64_t step = chunk_of_all_reduce(how, r.element_bytes);
  std::byte* const rows = rows_of_first_step(w);
  for (std::uint64_t done = 0; done < elements; done += step) {
    const std::uint64_t chunk = std::min(step, elements - done), at = done * r.element_bytes;
    device_launch launch = shape_of_all_reduce(how, chunk * r.element_bytes);
    launch.is_sum = true;
    launch.addend = w.residual ? w.residual + at : nullptr;
    XYL_TRY(device_->all_reduce(launch, w.input + at, rows + at, chunk, record, stream));
  }
  return {};
}

result communicator::fused_device(fused_request& r, xylStream_t stream) {
  const call_record record = record_of(r, true);
  if (waits_->out_of_service()) return explain(record);
  const std::optional<fused_form> pulled = fused_pull_form_for(r, record);
  if (!pulled && takes_two_steps(r)) return fused_in_two_steps(r, record, stream);
  const std::byte* input_of[device_capacity] = {};
  if (pulled) find_inputs(record, input_of);
  fused_work& w = r.work;
  fused_limits limits = fused_limits_;
  for (unsigned& blocks : limits.blocks) blocks = std::min(blocks, selection_.max_blocks);
  for (unsigned& blocks : limits.clustered) blocks = std::min(blocks, selection_.max_blocks);
  const fused_shape shape = shape_fused_or_next(pulled.value_or(fused_form_for(r, selection_.device)),
                                                r.element_bytes, ranks_, limits, device_->map(), w);
  if (shape.blocks == 0) return does_not_fit(r);
  const std::uint64_t all = uses_shares(shape.form) ? w.share : w.tokens;
  do {
    w.rows = static_cast<std::uint32_t>(std::min(shape.rows, all - w.first));
    XYL_TRY(device_->fused({shape.form, shape.blocks, shape.lanes, input_of}, w, record, stream));
    w.first += w.rows;
  } while (w.first < all);
  return {};
}

}  // namespace xyl
