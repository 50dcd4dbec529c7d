// SPDX-License-Identifier: BSD-3-Clause
//
// Tells device memory from host memory where a communicator has no device of its own (no CUDA in this build, no GPU
// on one of the ranks, XYLEM_GPU=never): the processor must not touch it. Asks the driver only if the process has
// loaded it, initialises nothing and makes no context.
#pragma once

namespace xyl {

class device_memory_check {
 public:
  device_memory_check();
  // Whether the processor cannot reach this memory. False if the driver was not in the process at construction.
  bool holds(const void* pointer) const;

 private:
  int (*get_attribute_)(void*, int, unsigned long long) = nullptr;  // cuPointerGetAttribute
};

}  // namespace xyl
