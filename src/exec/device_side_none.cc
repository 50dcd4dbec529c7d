// SPDX-License-Identifier: BSD-3-Clause
//
// A build without CUDA: no process has a device.
#include "exec/device_side.hpp"

namespace xyl {

int device_side::current_device() { return -1; }

result device_side::create(int, const layout&, std::byte*, std::size_t, std::int64_t, std::unique_ptr<device_side>&) {
  return error(xylInternalError, "this build has no CUDA");
}

}  // namespace xyl
