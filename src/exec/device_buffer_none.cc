// SPDX-License-Identifier: BSD-3-Clause
#include "exec/device_buffer.hpp"

namespace xyl {

device_buffer::~device_buffer() = default;

result device_buffer::create(int, std::size_t) {
  return error(xylInternalError, "this build has no CUDA, so no memory is on a device");
}

}  // namespace xyl
