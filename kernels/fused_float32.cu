// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"

template xyl::fused_family xyl::fused_kernels<xyl::fused_form::one_shot, float>();
template xyl::fused_family xyl::fused_kernels<xyl::fused_form::one_shot_pull, float>();
template xyl::fused_family xyl::fused_kernels<xyl::fused_form::packet, float>();
template xyl::fused_family xyl::fused_kernels<xyl::fused_form::two_shot_packet, float>();
