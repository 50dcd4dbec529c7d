// SPDX-License-Identifier: BSD-3-Clause
//
// A kernel that stands for a product before an allreduce and is mean about it: it lets the next launch be scheduled
// at once, then takes its time, and writes at its very end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace xyl::gpu_test {

struct late_copy {
  static constexpr int most = 2;
  const void* from[most] = {};
  void* to[most] = {};
  std::size_t bytes[most] = {};  // multiples of 2
};

// Enqueues the copies, written when so many microseconds have gone by.
cudaError_t copy_late(const late_copy& what, unsigned after_us, cudaStream_t stream);

}  // namespace xyl::gpu_test
