// SPDX-License-Identifier: BSD-3-Clause
//
// A setting that kernels are given as well as users: so it is not among the other parameters, whose header takes as
// long to compile as a kernel.
#pragma once

#include <cstdint>

namespace xyl {

// When kernels let the launch that follows be scheduled: when they have ended, when they have heard of every peer,
// or when they have sent.
enum class launch_overlap : std::uint8_t { automatic, none, late, early };

}  // namespace xyl
