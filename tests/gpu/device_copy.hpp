// SPDX-License-Identifier: BSD-3-Clause
//
// A fused_data's buffers in device memory, at the same place in their allocations.
#pragma once

#include <vector>

#include "tests/gpu/must.hpp"
#include "tests/proto/fused_data.hpp"

namespace xyl::gpu_test {

class device_copy {
 public:
  template <class T>
  explicit device_copy(test::fused_data<T>& d) {
    d.for_each_buffer([&](test::aligned_bytes& b) {
      void* there = nullptr;
      must(cudaMalloc(&there, b.allocated()), "cudaMalloc");
      must(cudaMemcpy(there, b.data(), b.allocated(), cudaMemcpyHostToDevice), "copy in");
      pairs_.push_back({b.raw(), static_cast<std::byte*>(there), b.allocated()});
    });
  }
  ~device_copy() {
    for (const pair& p : pairs_) (void)cudaFree(p.there);
  }
  device_copy(const device_copy&) = delete;

  std::byte* operator()(const std::byte* here) const {
    for (const pair& p : pairs_)
      if (p.here == here) return p.there;
    return nullptr;
  }
  void copy_back() const {
    for (const pair& p : pairs_) must(cudaMemcpy(p.here, p.there, p.bytes, cudaMemcpyDeviceToHost), "copy out");
  }
  void copy_in_again() const {
    for (const pair& p : pairs_) must(cudaMemcpy(p.there, p.here, p.bytes, cudaMemcpyHostToDevice), "copy in");
  }

 private:
  struct pair {
    std::byte *here, *there;
    std::size_t bytes;
  };
  std::vector<pair> pairs_;
};

}  // namespace xyl::gpu_test
