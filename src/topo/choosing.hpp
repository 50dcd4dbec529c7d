// SPDX-License-Identifier: BSD-3-Clause
// Which of the priced candidates of a collective is taken for which size: the fastest, or what a person prescribes
// (a plan file's thresholds, XYLEM_ALGO, XYLEM_DETERMINISTIC) and is possible. What is not is said in notes.
#pragma once

#include <string>
#include <vector>

#include "topo/planner.hpp"

namespace xyl::topo {

// Sets the ranges and the reason of c, whose candidates are there.
void choose_by_size(const plan_request& request, collective_plan& c, std::vector<std::string>& notes);

}  // namespace xyl::topo
