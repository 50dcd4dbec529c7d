// SPDX-License-Identifier: BSD-3-Clause
//
// Keeps one communicator's launches in one order although their streams differ. Eager launches follow each other;
// within one capture launches follow each other; a capture and what is outside it have no order that a recorded
// event could give (mixing them would break the capture, or replay a wait for something long past), so none is
// made: a graph launched beside other work of the same communicator is a mistake of the program, which the kernels
// report if a launch begins while another has entered with all its blocks.
#pragma once

#include <cstdint>

#include "exec/cuda_error.hpp"

namespace xyl {

class stream_order {
 public:
  stream_order() = default;
  stream_order(const stream_order&) = delete;
  stream_order& operator=(const stream_order&) = delete;
  ~stream_order() {
    for (sequence* s : {&eager_, &captured_})
      if (s->last) (void)cudaEventDestroy(s->last);
    if (meeting_) (void)cudaEventDestroy(meeting_);
  }

  // On the device of the communicator.
  result create() {
    for (sequence* s : {&eager_, &captured_})
      XYL_TRY(cuda_result(cudaEventCreateWithFlags(&s->last, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
    return cuda_result(cudaEventCreateWithFlags(&meeting_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }

  // Before a launch: what is enqueued on `stream` from now on comes after the last launch.
  result before(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long capture = 0, id = 0;
    XYL_TRY(cuda_result(cudaStreamGetCaptureInfo(stream, &status, &capture), "cudaStreamGetCaptureInfo"));
    if (status == cudaStreamCaptureStatusInvalidated)
      return error(xylInvalidUsage, "the stream's capture was invalidated by an earlier error");
    // The id, unlike the handle, is not used twice. It cannot be had during a capture, which no stream's end
    // survives.
    const bool is_captured = status == cudaStreamCaptureStatusActive;
    if (is_captured)
      id = reinterpret_cast<std::uintptr_t>(stream);
    else
      XYL_TRY(cuda_result(cudaStreamGetId(stream, &id), "cudaStreamGetId"));
    current_ = is_captured ? &captured_ : &eager_;
    if (current_->is_used && current_->capture == capture && current_->stream != id)
      XYL_TRY(cuda_result(cudaStreamWaitEvent(stream, current_->last, 0), "cudaStreamWaitEvent"));
    current_->capture = capture;
    current_->stream = id;
    return {};
  }

  // After it. The event is recorded at once: later the user may have destroyed the stream.
  result after(cudaStream_t stream) {
    XYL_TRY(record(current_->last, stream));
    current_->is_used = true;
    return {};
  }

  // What is enqueued on `stream` from now on comes after what is on `other`. A stream that is being captured takes
  // the other into its capture. The event is free again at once: the wait is for what it stands for now.
  result join(cudaStream_t stream, cudaStream_t other) {
    XYL_TRY(record(meeting_, other));
    return cuda_result(cudaStreamWaitEvent(stream, meeting_, 0), "cudaStreamWaitEvent");
  }

  // Waits for the last eager launch.
  result drain() {
    return eager_.is_used ? cuda_result(cudaEventSynchronize(eager_.last), "cudaEventSynchronize") : result();
  }

 private:
  static result record(cudaEvent_t event, cudaStream_t stream) {
    const cudaError_t status = cudaEventRecord(event, stream);
    if (status != cudaErrorInvalidResourceHandle) return cuda_result(status, "cudaEventRecord");
    (void)cudaGetLastError();  // or the user's next check would find our error
    return error(xylInvalidArgument, "the stream is not of the communicator's device, or was destroyed");
  }

  struct sequence {
    cudaEvent_t last = nullptr;
    unsigned long long stream = 0;   // which it was
    unsigned long long capture = 0;  // 0: eager
    bool is_used = false;
  };
  cudaEvent_t meeting_ = nullptr;
  sequence eager_, captured_;
  sequence* current_ = &eager_;
};

}  // namespace xyl
