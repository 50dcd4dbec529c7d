// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"
#include "kernels/fused_rows.cuh"

namespace xyl {

template fused_family fused_kernels<fused_form::one_shot, bfloat16>();
template fused_family fused_kernels<fused_form::one_shot_pull, bfloat16>();
template kernel rows_kernel_of<bfloat16, true, rows_spread::narrow>();
template kernel rows_kernel_of<bfloat16, true, rows_spread::wide>();

}  // namespace xyl
