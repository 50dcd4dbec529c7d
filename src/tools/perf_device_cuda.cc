// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory by the CUDA runtime: one stream, two events, graphs of captured calls. A machine without a driver
// has no devices.
#include <cuda_runtime.h>

#include <vector>

#include "tools/perf_memory.hpp"

namespace xyl {
namespace {

result check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  return error(xylUnhandledCudaError, "%s: %s", what, cudaGetErrorString(status));
}

class device_memory final : public perf_memory {
 public:
  ~device_memory() override {
    if (stream_) cudaStreamSynchronize(stream_);
    for (void* address : allocations_) cudaFree(address);
    if (start_) cudaEventDestroy(start_);
    if (stop_) cudaEventDestroy(stop_);
    if (reached_) cudaEventDestroy(reached_);
    if (stream_) cudaStreamDestroy(stream_);
  }
  result create(int device) {
    device_ = device;
    XYL_TRY(use_device(device));
    XYL_TRY(check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"));
    XYL_TRY(check(cudaEventCreate(&start_), "cudaEventCreate"));
    XYL_TRY(check(cudaEventCreate(&stop_), "cudaEventCreate"));
    return check(cudaEventCreateWithFlags(&reached_, cudaEventDisableTiming), "cudaEventCreate");
  }

  result allocate(std::size_t bytes, std::byte*& out) override {
    void* address = nullptr;
    XYL_TRY(use_device(device_));
    if (const cudaError_t status = cudaMalloc(&address, bytes); status != cudaSuccess)
      return error(xylUnhandledCudaError, "no device memory for a buffer of %zu bytes: %s", bytes,
                   cudaGetErrorString(status));
    allocations_.push_back(address);
    out = static_cast<std::byte*>(address);
    return {};
  }
  // In the stream, like the work on the buffers, then waited for: the default stream does not order itself with it.
  result fill(std::byte* to, int byte, std::size_t bytes) override {
    XYL_TRY(check(cudaMemsetAsync(to, byte, bytes, stream_), "cudaMemsetAsync"));
    return wait();
  }
  result write(std::byte* to, const std::byte* from, std::size_t bytes) override { return copy(to, from, bytes); }
  result read(std::byte* to, const std::byte* from, std::size_t bytes) override { return copy(to, from, bytes); }

  xylStream_t stream() const override { return stream_; }

  result record(const work& calls, work& launch) override {
    XYL_TRY(check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
    // A capture that was begun has to be ended, whatever happened within.
    result done = calls();
    cudaGraph_t graph = nullptr;
    result ended = check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    if (done.ok()) done = std::move(ended);
    if (done.ok()) done = check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    if (graph) cudaGraphDestroy(graph);
    XYL_TRY(std::move(done));
    const std::shared_ptr<CUgraphExec_st> owner(executable, [](cudaGraphExec_t e) { cudaGraphExecDestroy(e); });
    launch = [this, owner] { return check(cudaGraphLaunch(owner.get(), stream_), "cudaGraphLaunch"); };
    return {};
  }

  result follow(perf_memory& other) override {
    device_memory& theirs = static_cast<device_memory&>(other);
    XYL_TRY(check(cudaEventRecord(theirs.reached_, theirs.stream_), "cudaEventRecord"));
    return check(cudaStreamWaitEvent(stream_, theirs.reached_, 0), "cudaStreamWaitEvent");
  }

  result add_norm(const norm_call& call) override {
    return check(static_cast<cudaError_t>(add_norm_on_device(call, stream_)), "the separate kernel");
  }

  result wait() override { return check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  result start_clock() override { return check(cudaEventRecord(start_, stream_), "cudaEventRecord"); }
  result stop_clock(double& seconds) override {
    XYL_TRY(check(cudaEventRecord(stop_, stream_), "cudaEventRecord"));
    XYL_TRY(wait());
    float milliseconds = 0;
    XYL_TRY(check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime"));
    seconds = static_cast<double>(milliseconds) * 1e-3;
    return {};
  }

 private:
  // What runs has ended first: a copy to pageable memory that waits inside the driver keeps other threads' ranks
  // out.
  result copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    XYL_TRY(wait());
    XYL_TRY(check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync"));
    return wait();
  }

  int device_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  cudaEvent_t reached_ = nullptr;  // for those who follow
  std::vector<void*> allocations_;
};

}  // namespace

int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

result use_device(int device) { return check(cudaSetDevice(device), "cudaSetDevice"); }

std::string device_text(int device) {
  cudaDeviceProp properties;
  char address[32] = "?";
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return "?";
  cudaDeviceGetPCIBusId(address, static_cast<int>(sizeof address), device);
  return format_text("%s [%s]", properties.name, address);
}

result make_device_memory(int device, std::unique_ptr<perf_memory>& out) {
  auto made = std::make_unique<device_memory>();
  XYL_TRY(made->create(device));
  out = std::move(made);
  return {};
}

}  // namespace xyl
