// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/wide_packet.cuh"

template xyl::kernel_family xyl::wide_packet_kernels<float>();
