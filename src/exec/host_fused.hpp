// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce on host memory, a function per activation type. The protocols are the same text as the GPU's;
// rows are gone over with the loops of host_row.hpp, whose bits are those of the GPU's lanes.
#pragma once

#include "exec/host_packet.hpp"
#include "exec/host_row.hpp"
#include "proto/fused_work.hpp"

namespace xyl {

// Packets have nothing to add between processors: one of the forms that use them is one-shot. input_of: every
// rank's registered input, for the forms that pull. type: xylFloat16, xylBfloat16 or xylFloat32.
bool host_fused(host_space& s, const host_call& c, const fused_work& w, fused_form form,
                const std::byte* const* input_of, int type, const host_rows& rows);

}  // namespace xyl
