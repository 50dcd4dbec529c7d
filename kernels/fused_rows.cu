// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused_rows.cuh"

template xyl::rows_kernels xyl::rows_kernels_of<xyl::float16>();
template xyl::rows_kernels xyl::rows_kernels_of<xyl::bfloat16>();
template xyl::rows_kernels xyl::rows_kernels_of<float>();
