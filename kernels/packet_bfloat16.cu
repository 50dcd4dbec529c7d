// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/line_packet.cuh"
#include "kernels/packet.cuh"
#include "kernels/wide_packet.cuh"

namespace xyl {

template packet_families packet_kernels<bfloat16>();
template kernel_family wide_packet_kernels<bfloat16>();
template kernel_family line_packet_kernels<bfloat16>();

}  // namespace xyl
