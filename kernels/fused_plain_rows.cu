// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused_rows.cuh"

template xyl::kernel xyl::rows_kernel_of<xyl::float16, false>();
template xyl::kernel xyl::rows_kernel_of<xyl::bfloat16, false>();
template xyl::kernel xyl::rows_kernel_of<float, false>();
