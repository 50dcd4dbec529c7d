// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"
#include "kernels/fused_rows.cuh"

namespace xyl {

template fixed_kernels plain_fused_kernels<fused_form::packet, float16>();
template fixed_kernels plain_fused_kernels<fused_form::two_shot_packet, float16>();
template fixed_kernels plain_fused_kernels<fused_form::one_shot, float16>();
template fixed_kernels plain_fused_kernels<fused_form::two_shot_slices, float16>();
template fixed_kernels plain_fused_kernels<fused_form::one_shot_pull, float16>();
template kernel rows_kernel_of<float16, false, rows_spread::narrow>();
template kernel rows_kernel_of<float16, false, rows_spread::wide>();

}  // namespace xyl
