// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator in a build without CUDA: there is no device, so that no communicator asks for
// one, and a request for one is a defect of ours.
#include "exec/device_side.hpp"

namespace xyl {

int device_side::current_device() { return -1; }

result device_side::create(int device, const layout&, std::byte*, std::size_t, std::int64_t,
                           std::unique_ptr<device_side>& out) {
  out.reset();
  return error(xylInternalError, "CUDA device %d was asked for in a build of Xylem without CUDA", device);
}

}  // namespace xyl
