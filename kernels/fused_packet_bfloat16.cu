// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"

namespace xyl {

template fused_family fused_kernels<fused_form::packet, bfloat16>();
template fused_family fused_kernels<fused_form::two_shot_packet, bfloat16>();

}  // namespace xyl
