// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"
#include "kernels/fused_rows.cuh"

namespace xyl {

template fused_family fused_kernels<fused_form::packet, float>();
template fused_family fused_kernels<fused_form::one_shot, float>();
template fused_family fused_kernels<fused_form::two_shot, float>();
template kernel rows_kernel_of<float, false, rows_spread::narrow>();
template kernel rows_kernel_of<float, true, rows_spread::narrow>();

}  // namespace xyl
