// SPDX-License-Identifier: BSD-3-Clause
//
// The links of a build without CUDA: there are none.
#include "probe/link.hpp"

namespace xyl::probe {

result make_device_link(std::unique_ptr<link>&) {
  return error(xylInternalError, "this build has no CUDA, so there are no devices to probe");
}

}  // namespace xyl::probe
