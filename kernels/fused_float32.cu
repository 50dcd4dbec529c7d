// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"

namespace xyl {

template fused_family fused_kernels<fused_form::packet, float>();
template fused_family fused_kernels<fused_form::one_shot, float>();
template fused_family fused_kernels<fused_form::two_shot, float>();

}  // namespace xyl
