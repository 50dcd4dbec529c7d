// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives moved by copy engines: proto/copied_schedule.hpp with streams for queues and events for marks. All of
// it can be captured: the queues join the capture at their first wait and are joined to the caller's stream at the
// end.
#include <algorithm>

#include "exec/cuda_device_side.hpp"
#include "exec/dispatch.hpp"
#include "kernels/collective_arguments.hpp"
#include "kernels/collective_table.hpp"
#include "proto/copied_schedule.hpp"

namespace xyl {

namespace {

// Of the kernels that wait for nobody: a chunk's share is read and written in a few microseconds.
constexpr unsigned most_computing_blocks = 64;

result copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes, cudaStream_t queue) {
  if (bytes == 0) return {};
  return cuda_result(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue), "cudaMemcpyAsync");
}

}  // namespace

copy_queues_cuda::~copy_queues_cuda() {
  for (cudaStream_t s : streams)
    if (s) (void)cudaStreamDestroy(s);
  for (cudaEvent_t e : marks)
    if (e) (void)cudaEventDestroy(e);
}

// Steps are one block and hold up copies: they go before what else waits for a multiprocessor.
result copy_queues_cuda::create() {
  int least = 0, greatest = 0;
  XYL_TRY(cuda_result(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange"));
  for (cudaStream_t& s : streams)
    XYL_TRY(cuda_result(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest),
                        "cudaStreamCreateWithPriority"));
  for (cudaEvent_t& e : marks)
    XYL_TRY(cuda_result(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  return {};
}

std::byte* cuda_device_side::copied_at(int rank, const copied_chunk& k) const {
  std::byte* const there = windows_ ? windows_->workspace(rank) : peers_[static_cast<std::size_t>(rank)];
  return there + map_.copied_offset(k.number, static_cast<unsigned>(rank_));
}

// Own device memory where what was sent to this rank is taken to; its workspace where it was written there.
std::byte* cuda_device_side::landed_at(const copied_chunk& k) const {
  const std::uint64_t inside = map_.copied_offset(k.number, 0) - map_.copies;
  return workspace_ + (windows_ ? map_.bulk : map_.copies) + inside;
}

// A call. Where it takes one phase, `how` says which pieces go where, and the message is a piece.
struct copied_work {
  const std::byte* input;
  std::byte* output;
  copied_message message;
  unsigned element_bytes;
  kernel sum;  // where something is added up
  const movement* how = nullptr;
};

// All copies of a queue for one chunk, to or from every peer.
result cuda_device_side::copy_chunk(const copied_work& w, copy_queue kind, const copied_chunk& k,
                                    cudaStream_t queue) const {
  const int ranks = static_cast<int>(peers_.size());
  const std::uint64_t half = map_.copy_stride / 2;
  const bool takes = kind == copy_queue::take_shares || kind == copy_queue::take_results;
  if (takes && !windows_) return {};  // it is here
  for (int i = 1; i < ranks; ++i) {
    const int p = (rank_ + i) % ranks;
    if (w.how && !(takes ? w.how->goes(p, rank_) : w.how->goes(rank_, p))) continue;
    if (takes) {
      const bool shares = kind == copy_queue::take_shares || w.how;
      const std::uint64_t region = map_.copy_stride * static_cast<unsigned>(p) + (shares ? 0 : half);
      const std::byte* const from = windows_->workspace(rank_) + map_.copied_offset(k.number, 0) + region;
      const std::uint64_t bytes = w.how ? k.bytes : k.bytes_of(shares ? rank_ : p);
      XYL_TRY(copy_bytes(landed_at(k) + region, from, bytes, queue));
    } else if (w.how) {
      const std::byte* const piece = w.input + w.how->input_stride * static_cast<unsigned>(p);
      XYL_TRY(copy_bytes(copied_at(p, k), piece + k.first, k.bytes, queue));
    } else if (kind == copy_queue::send_shares) {
      XYL_TRY(copy_bytes(copied_at(p, k), w.input + k.first + k.begin_of(p), k.bytes_of(p), queue));
    } else {
      XYL_TRY(copy_bytes(copied_at(p, k) + half, w.output + k.first + k.begin_of(rank_), k.bytes_of(rank_), queue));
    }
  }
  return {};
}

// What touches the output once a chunk has landed.
result cuda_device_side::compute_chunk(const copied_work& w, const copied_chunk& k, bool adds_up,
                                       const call_record& record, cudaStream_t queue) {
  const kernel computing = adds_up ? w.sum : copying_kernels().deliver;
  copy_arguments arguments;
  // Of the pieces of a reduce-scatter this rank adds up its own.
  const std::uint64_t own = w.how && adds_up ? w.how->input_stride * static_cast<unsigned>(rank_) : 0;
  describe(arguments, w.input + own + k.first, w.output + k.first,
           w.sum.count_of(k.bytes / w.element_bytes, w.element_bytes), record);
  arguments.chunk = k;
  if (w.how) arguments.how = *w.how;
  arguments.how.bytes = w.how ? k.bytes : 0;
  arguments.landed = landed_at(k);
  const std::uint64_t units = k.share / 16;
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::uint64_t>(units_of(units, computing.most_lanes), 1, most_computing_blocks));
  arguments.units_of_block = units_of_each(units, blocks);
  return launch(computing, blocks, {.lanes = computing.most_lanes}, arguments, queue);
}

result cuda_device_side::run_copies(const copied_work& w, const call_record& record, cudaStream_t stream) {
  const std::uint64_t chunks = w.message.chunks();
  if (!copying_[0].streams[0] || chunks == 0 || chunks > copy_step::most_chunks)
    return error(xylInternalError, "%llu bytes cannot be moved by copy engines",
                 static_cast<unsigned long long>(w.message.bytes));
  const device_scope scope(device_);
  XYL_TRY(scope.status());
  XYL_TRY(order_.before(stream));
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  XYL_TRY(cuda_result(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing"));
  // A queue that has joined a capture belongs to that until it ends.
  const copy_queues_cuda& queues = copying_[capture == cudaStreamCaptureStatusNone ? 0 : 1];

  const auto enqueue = [&](const copied_operation& o) -> result {
    const cudaStream_t queue =
        o.on == copy_queue::compute ? stream : queues.streams[static_cast<unsigned>(o.on) - 1];
    switch (o.what) {
      case copied_operation::mark:
        return cuda_result(cudaEventRecord(queues.marks[o.where.index()], queue), "cudaEventRecord");
      case copied_operation::await_mark:
        return cuda_result(cudaStreamWaitEvent(queue, queues.marks[o.where.index()], 0), "cudaStreamWaitEvent");
      case copied_operation::meet:
        // Everybody's headers.
        return move({move_form::packet, 1, {}}, nullptr, nullptr, record, queue);
      case copied_operation::step: {
        const kernel step = copying_kernels().step;
        copy_arguments arguments;
        describe(arguments, nullptr, nullptr, 0, record);
        arguments.step = o.how;
        return launch(step, 1, {.lanes = step.most_lanes}, arguments, queue);
      }
      case copied_operation::reduce:
      case copied_operation::deliver:
        return compute_chunk(w, w.message.chunk(o.chunk),
                             o.what == copied_operation::reduce || (w.how && w.sum.function), record, queue);
      case copied_operation::copy:
        return copy_chunk(w, o.on, w.message.chunk(o.chunk), queue);
    }
    return {};
  };
  result enqueued;
  const auto one = [&](const copied_operation& o) {
    enqueued = enqueue(o);
    return enqueued.ok();
  };
  (void)(w.how ? for_each_copied_movement(chunks, one) : for_each_copied_operation(chunks, one));
  return enqueued;
}

result cuda_device_side::all_reduce_by_copies(const void* send, void* recv, std::uint64_t count,
                                              const call_record& record, xylStream_t stream) {
  const auto type = static_cast<xylDataType_t>(record.type);
  const kernel sum = choose_copied_kernel(type);
  if (!sum.function) return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  const unsigned element_bytes = facts_of(type)->bytes;
  movement to_everyone;
  to_everyone.bytes = count * element_bytes;
  return run_copies({static_cast<const std::byte*>(send), static_cast<std::byte*>(recv),
                     copied_message::cut_sum(count * element_bytes, map_), element_bytes, sum,
                     copied_message::sums_in_one_phase(map_.ranks) ? &to_everyone : nullptr},
                    record, stream);
}

result cuda_device_side::move_by_copies(const movement& how, bool adds_up, const void* send, void* recv,
                                        const call_record& record, xylStream_t stream) {
  const auto type = static_cast<xylDataType_t>(record.type);
  const type_facts* const facts = facts_of(type);
  const kernel sum = adds_up ? choose_copied_kernel(type) : kernel{};
  if (!facts || (adds_up && !sum.function))
    return error(xylInvalidArgument, "no kernel for type %d", static_cast<int>(type));
  return run_copies({static_cast<const std::byte*>(send), static_cast<std::byte*>(recv),
                     copied_message::cut_piece(how.bytes, map_), facts->bytes, sum, &how},
                    record, stream);
}

}  // namespace xyl
