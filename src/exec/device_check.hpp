// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a sum whose result is known through every family of kernels, once, when a communicator is made: a kernel
// that was built empty, or that this GPU executes wrongly, is found before it touches a user's data.
#pragma once

#include "exec/device_side.hpp"

namespace xyl {

// Collective over the ranks of `side`, which are connected. fused_blocks: co-resident, by form; clusters: whether
// rows may be a cluster of blocks. The result is this rank's own finding. Fails with the family's name if a sum is
// wrong, or as the launch fails.
result check_kernels(device_side& side, int rank, int ranks, std::span<const unsigned, 3> fused_blocks,
                     bool clusters);

}  // namespace xyl
