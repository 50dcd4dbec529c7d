// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda_space_machine.cuh"
#include "tests/gpu/late_producer.hpp"

namespace xyl::gpu_test {
namespace {

__global__ void late_copy_kernel(late_copy what, std::uint64_t after_ns) {
  machine::await_earlier_launches();
  machine::let_next_launch_start();
  const std::uint64_t end = machine::time_ns() + after_ns;
  while (machine::time_ns() < end) {
  }
  const std::size_t lane = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  const std::size_t step = gridDim.x * std::size_t{blockDim.x};
  for (int k = 0; k < late_copy::most; ++k)
    for (std::size_t i = lane; i < what.bytes[k] / 2; i += step)
      static_cast<std::uint16_t*>(what.to[k])[i] = static_cast<const std::uint16_t*>(what.from[k])[i];
}

}  // namespace

cudaError_t copy_late(const late_copy& what, unsigned after_us, cudaStream_t stream) {
  late_copy_kernel<<<4, 256, 0, stream>>>(what, std::uint64_t{after_us} * 1000);
  return cudaGetLastError();
}

}  // namespace xyl::gpu_test
