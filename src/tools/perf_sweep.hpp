// SPDX-License-Identifier: BSD-3-Clause
//
// A sweep over types, operations, roots and sizes for one collective.
#pragma once

#include <vector>

#include "tools/perf_run.hpp"

namespace xyl {

// Whole elements, at least one for every rank; sizes that come to the same count make one line.
std::vector<perf_line> plan_lines(const perf_options& options, const perf_collective& collective, int ranks);

}  // namespace xyl
