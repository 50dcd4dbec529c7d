// SPDX-License-Identifier: BSD-3-Clause
//
// Where the buffers of a measurement are, and how work on them is timed: host memory with the monotonic clock,
// device memory with CUDA events on one stream. No CUDA type appears here; perf_device_cuda.cc is compiled with
// CUDA, perf_device_none.cc without.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "tools/perf_norm.hpp"

namespace xyl {

using work = std::function<result()>;

class perf_memory {
 public:
  virtual ~perf_memory() = default;

  // Freed with this object.
  virtual result allocate(std::size_t bytes, std::byte*& out) = 0;
  virtual result fill(std::byte* to, int byte, std::size_t bytes) = 0;
  virtual result write(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual result read(std::byte* to, const std::byte* from, std::size_t bytes) = 0;

  // What collectives are enqueued on; null for host memory.
  virtual xylStream_t stream() const = 0;
  // Makes of `calls` (run once, recorded and not executed) a launch of a CUDA graph. Device memory only.
  virtual result record(const work& calls, work& launch) = 0;
  // What is enqueued here from now on waits for what has been enqueued there; also while that is recorded.
  virtual result follow(perf_memory& other) = 0;
  // Enqueues the separate kernel, or runs the loop.
  virtual result add_norm(const norm_call& call) = 0;
  // Waits until everything enqueued has run.
  virtual result wait() = 0;
  virtual result start_clock() = 0;
  // Waits for the work since start_clock().
  virtual result stop_clock(double& seconds) = 0;
};

std::unique_ptr<perf_memory> make_host_memory();

// The CUDA devices this process sees; 0 without a driver or in a build without CUDA.
int device_count();
// Makes the device current for the calling thread.
result use_device(int device);
// Name and PCI address.
std::string device_text(int device);
result make_device_memory(int device, std::unique_ptr<perf_memory>& out);

}  // namespace xyl
