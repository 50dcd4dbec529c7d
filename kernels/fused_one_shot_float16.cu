// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"
#include "kernels/fused_rows.cuh"

namespace xyl {

template fused_family fused_kernels<fused_form::one_shot, float16>();
template fused_family fused_kernels<fused_form::one_shot_pull, float16>();
template kernel rows_kernel_of<float16, true, rows_spread::narrow>();
template kernel rows_kernel_of<float16, true, rows_spread::wide>();

}  // namespace xyl
