// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator in a build without CUDA: there is no device.
#include "exec/device_check.hpp"
#include "exec/device_side.hpp"

namespace xyl {

int device_side::current_device() { return -1; }

int device_side::count() { return 0; }

result device_side::create(int, const layout&, std::byte*, std::size_t, std::int64_t, bool,
                           std::unique_ptr<device_side>& out) {
  out.reset();
  return error(xylInternalError, "this build has no CUDA, so no rank can have a device");
}

bool has_current_device() { return false; }

result allocate_device_memory(std::size_t, void*& out) {
  out = nullptr;
  return error(xylInternalError, "this build has no CUDA, so it has no device memory");
}

result free_device_memory(void*) {
  return error(xylInternalError, "this build has no CUDA, so it has no device memory");
}

result kernel_check::create(device_side&, int, int, std::unique_ptr<kernel_check>&) {
  return error(xylInternalError, "this build has no CUDA, so there are no kernels to check");
}

}  // namespace xyl
