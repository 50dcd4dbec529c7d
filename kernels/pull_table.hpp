// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels on registered buffers, as handles for the CUDA runtime. Compiles with any compiler.
#pragma once

#include "kernels/kernel_table.hpp"
#include "proto/forms.hpp"

namespace xyl {

template <class T>
kernel_family pull_kernels();   // kernels/bulk_*.cu
kernel pull_movement_kernel();  // kernels/movement.cu

// function is null for a type that does not exist. operation: what is combined with.
kernel choose_pull_kernel(xylDataType_t type, xylRedOp_t operation, int ranks);

// Every kernel of this table once.
std::span<const kernel> all_pull_kernels();

}  // namespace xyl
