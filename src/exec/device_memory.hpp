// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory that is no communicator's: allocated on the calling thread's current device, and how one process
// tells another of it. A build without CUDA has none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"

namespace xyl {

// What a rank tells the others about a buffer in its device's memory. Plain bytes.
struct exported_memory {
  std::uint8_t ipc[64];   // cudaIpcMemHandle_t of the allocation
  std::uint64_t offset;   // of the buffer in it
  std::uint64_t address;  // of the buffer, good within the process
  std::int32_t ordinal;   // CUDA device number in that process
  std::int32_t reserved;
};

bool has_current_device();
result allocate_device_memory(std::size_t bytes, void*& out);
result free_device_memory(void* memory);

}  // namespace xyl
