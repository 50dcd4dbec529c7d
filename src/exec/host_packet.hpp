// SPDX-License-Identifier: BSD-3-Clause
//
// The packet protocol on host memory, one function per type and operation: at a few bytes, an indirect call a word
// would cost more than the work.
#pragma once

#include "exec/host_reduction.hpp"
#include "exec/host_space.hpp"

namespace xyl {

using host_call = call<host_capacity>;
using packet_function = bool (*)(host_space&, const host_call&, std::uint32_t divisor);

// One-shot or two-shot. By dense indices of dispatch.hpp; nullptr for a bitwise operation on a floating-point type.
// The same of messages that travel beside their headers, for the same reason: one-shot.
packet_function host_inline_function(int type_index, int operation_index);
packet_function host_packet_function(bool two_shot, int type_index, int operation_index);

}  // namespace xyl
