// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that xylMemAlloc gave out, so that other processes can be let into it: sealed memory on the host, an
// allocation of its own on a device. One table for the process; every function may be called from any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.hpp"
#include "os/sealed_memory.hpp"
#include "xylem/xylem.h"

namespace xyl {

struct allocation {
  ~allocation();
  allocation() = default;
  allocation(const allocation&) = delete;

  sealed_memory host;      // of host memory
  void* device = nullptr;  // of device memory
  std::size_t bytes = 0;

  std::byte* data() const { return device != nullptr ? static_cast<std::byte*>(device) : host.data(); }
};

// `out` stays null for 0 bytes. Errors: xylInvalidArgument (no such kind), xylInvalidUsage (device memory without a
// device), xylSystemError, xylUnhandledCudaError.
result allocate(std::size_t bytes, int kind, void*& out);
// Errors: xylInvalidArgument (nothing that allocate() gave out), xylInvalidUsage (somebody keeps it).
result release(void* memory);
// Keeps the allocation that holds these bytes; null if it is none of this table's.
std::shared_ptr<const allocation> allocation_of(const void* memory, std::size_t bytes);

}  // namespace xyl
