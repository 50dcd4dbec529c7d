// SPDX-License-Identifier: BSD-3-Clause
//
// For GoogleTest programs on GPUs: whether there is one, and all ranks of a communicator in one process, driven by
// one thread.
#pragma once

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "abi/id_ranks.hpp"

namespace xyl::test {

inline void cuda(cudaError_t status) { ASSERT_EQ(status, cudaSuccess) << cudaGetErrorString(status); }

// In a child: asking in the parent would leave a CUDA context there before the fork.
inline bool has_gpu() {
  static const bool found = forked_processes(1,
                                             [](int) {
                                               int devices = 0;
                                               if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
                                                 ::_exit(3);
                                             })[0]
                                .good();
  return found;
}

// Each rank's memory on its device.
class local_device_ranks {
 public:
  local_device_ranks(int ranks, std::size_t bytes) : comms(static_cast<std::size_t>(ranks)) {
    EXPECT_EQ(xylCommInitAll(comms.data(), ranks, nullptr), xylSuccess) << xylGetLastError(nullptr);
    for (int r = 0; r < ranks; ++r) {
      use(r);
      std::byte* at = nullptr;
      cuda(cudaMalloc(reinterpret_cast<void**>(&at), bytes));
      memory.push_back(at);
    }
  }
  ~local_device_ranks() {
    for (int r = 0; r < ranks(); ++r) {
      use(r);
      (void)cudaDeviceSynchronize();
      (void)cudaFree(memory[static_cast<std::size_t>(r)]);
      EXPECT_EQ(xylCommDestroy(comms[static_cast<std::size_t>(r)]), xylSuccess);
    }
  }
  local_device_ranks(const local_device_ranks&) = delete;

  int ranks() const { return static_cast<int>(comms.size()); }
  void use(int rank) const {
    int device = -1;
    ASSERT_EQ(xylCommDevice(comms[static_cast<std::size_t>(rank)], &device), xylSuccess);
    ASSERT_GE(device, 0) << "the communicator has no device";
    cuda(cudaSetDevice(device));
  }
  bool on_one_device() const {
    std::vector<int> devices(comms.size());
    for (std::size_t r = 0; r < comms.size(); ++r) EXPECT_EQ(xylCommDevice(comms[r], &devices[r]), xylSuccess);
    return std::count(devices.begin(), devices.end(), devices[0]) == ranks();
  }

  std::vector<xylComm_t> comms;
  std::vector<std::byte*> memory;
};

}  // namespace xyl::test
