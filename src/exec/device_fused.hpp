// SPDX-License-Identifier: BSD-3-Clause
//
// What a device with CUDA can do for rows that several blocks share.
#pragma once

#include "exec/device_side.hpp"

namespace xyl {

// Says in the handle whether the fused kernels' blocks can form clusters of the most that a launch asks for; then
// its numbers of blocks, filled in before, become those that whole clusters have.
result find_clusters(int device, device_handle& handle);

}  // namespace xyl
