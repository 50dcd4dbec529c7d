// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of the CUDA runtime as results, and the current device put back where it was.
#pragma once

#include <cuda_runtime_api.h>

#include "base/result.hpp"

namespace xyl {

// what: the call, as a person would look it up.
inline result cuda_result(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // or the user's next check would find our error
  return error(xylUnhandledCudaError, "%s: %s (%s)", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

// Makes `device` current for a scope. The user's thread may have another current device.
class device_scope {
 public:
  explicit device_scope(int device) {
    status_ = cudaGetDevice(&before_);
    if (status_ == cudaSuccess && before_ != device) {
      status_ = cudaSetDevice(device);
      changed_ = status_ == cudaSuccess;
    }
  }
  ~device_scope() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;

  result status() const { return cuda_result(status_, "cudaSetDevice"); }

 private:
  cudaError_t status_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace xyl
