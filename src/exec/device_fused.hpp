// SPDX-License-Identifier: BSD-3-Clause
//
// What a device with CUDA can do for rows that several blocks share.
#pragma once

#include "exec/device_side.hpp"

namespace xyl {

// Says in the handle whether the fused kernels' blocks can form clusters of the most that a launch asks for; and
// how many blocks whole clusters have; its other numbers of blocks are there already.
result find_clusters(int device, device_handle& handle);

}  // namespace xyl
