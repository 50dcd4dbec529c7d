// SPDX-License-Identifier: BSD-3-Clause
//
// The instruction sets that loops over host memory are compiled for, and which of them a processor runs.
#pragma once

#include "base/parameters.hpp"

namespace xyl {

// What a wish comes to: itself, if the processor has it and it was compiled, else the best below it.
// `automatic` wishes for the best there is.
instruction_set usable_instructions(instruction_set wish);

}  // namespace xyl
