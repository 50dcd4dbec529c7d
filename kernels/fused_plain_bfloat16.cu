// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"
#include "kernels/fused_rows.cuh"

namespace xyl {

template fixed_kernels plain_fused_kernels<fused_form::packet, bfloat16>();
template fixed_kernels plain_fused_kernels<fused_form::two_shot_packet, bfloat16>();
template fixed_kernels plain_fused_kernels<fused_form::one_shot, bfloat16>();
template fixed_kernels plain_fused_kernels<fused_form::two_shot_slices, bfloat16>();
template fixed_kernels plain_fused_kernels<fused_form::one_shot_pull, bfloat16>();
template kernel rows_kernel_of<bfloat16, false, rows_spread::narrow>();
template kernel rows_kernel_of<bfloat16, false, rows_spread::wide>();

}  // namespace xyl
