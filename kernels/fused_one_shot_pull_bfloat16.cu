// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused.cuh"

template xyl::fused_family xyl::fused_kernels<xyl::fused_form::one_shot_pull, xyl::bfloat16>();
