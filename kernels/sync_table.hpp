// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel of the self-tests of sync paths, as a handle for the CUDA runtime. It takes a trial_order and runs one
// block. Tests put a kernel of their own in its place, in which paths are broken.
#pragma once

#include "kernels/kernel_table.hpp"

namespace xyl {

kernel trial_kernel();

}  // namespace xyl
