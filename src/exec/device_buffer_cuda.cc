// SPDX-License-Identifier: BSD-3-Clause
#include "exec/cuda_error.hpp"
#include "exec/device_buffer.hpp"

namespace xyl {

device_buffer::~device_buffer() {
  if (data_ == nullptr) return;
  const device_scope scope(device_);
  (void)cudaFree(data_);
  (void)cudaGetLastError();
}

result device_buffer::create(int device, std::size_t bytes) {
  const device_scope scope(device);
  XYL_TRY(scope.status());
  void* at = nullptr;
  XYL_TRY(cuda_result(cudaMalloc(&at, bytes), "cudaMalloc"));
  device_ = device;
  data_ = static_cast<std::byte*>(at);
  return cuda_result(cudaMemset(at, 0, bytes), "cudaMemset");
}

}  // namespace xyl
