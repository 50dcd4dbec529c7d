// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce on host memory, a function per activation type. It is the same text as the GPU's, and the
// reference for it.
#pragma once

#include "exec/host_packet.hpp"
#include "proto/fused_work.hpp"

namespace xyl {

// Packets have nothing to add between processors: a form other than two-shot is one-shot. type: xylFloat16,
// xylBfloat16 or xylFloat32.
bool host_fused(host_space& s, const host_call& c, const fused_work& w, fused_form form, int type);

}  // namespace xyl
