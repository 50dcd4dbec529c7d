// SPDX-License-Identifier: BSD-3-Clause
//
// A sweep over types, operations, roots and sizes for one collective.
#pragma once

#include <fstream>
#include <vector>

#include "tools/perf_run.hpp"

namespace xyl {

// Whole elements, at least one for every rank; sizes that come to the same count make one line.
std::vector<perf_line> plan_lines(const perf_options& options, const perf_collective& collective, int ranks);

// What one thread of a process does; the others of the process have no report. Prints what a speaker prints.
result sweep(perf_team& team, const perf_collective& collective, perf_report* report, bool speaks,
             std::ofstream& csv);

}  // namespace xyl
