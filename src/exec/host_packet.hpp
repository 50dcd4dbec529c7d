// SPDX-License-Identifier: BSD-3-Clause
//
// The packet protocols on host memory, for who asks for them: processors do not choose them. So type and operation
// are chosen at run time, as in the kernels for any number of ranks: code for every one took as long to compile as
// all of the topology.
#pragma once

#include "exec/host_reduction.hpp"
#include "exec/host_space.hpp"

namespace xyl {

using host_call = call<host_capacity>;

// One-shot or two-shot. divisor: of an average, else 1; the operation is what is averaged then.
bool host_packet(host_space& s, const host_call& c, bool two_shot, int type, int operation, std::uint32_t divisor);

}  // namespace xyl
