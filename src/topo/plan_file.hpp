// SPDX-License-Identifier: BSD-3-Clause
// A plan that a person prescribes: XYLEM_PLAN names a JSON file with rings, thresholds, or both; what it leaves out
// is the planner's. Example:
//
//   {"rings": [[0, 1, 2, 3], [3, 2, 1, 0]],
//    "thresholds": {"allreduce": [{"up_to": "64K", "algorithm": "oneshot"}, {"algorithm": "ring"}]}}
//
// Ranks; sizes in bytes or with K, M or G; the last threshold has no "up_to". The other keys of a description
// (describe.hpp) are accepted and mean nothing.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parameters.hpp"
#include "base/result.hpp"
#include "topo/json_read.hpp"
#include "topo/planner.hpp"

namespace xyl::topo {

// Errors (xylInvalidUsage): not such a file; the text says where. Whether it fits the ranks is for make_plan to
// say.
[[nodiscard]] result read_plan_text(std::string_view text, plan_override& out);
[[nodiscard]] result read_plan_file(const char* path, plan_override& out);

// What XYLEM_ALGO, XYLEM_DETERMINISTIC and XYLEM_PLAN say, into the request. Errors: as read_plan_file.
[[nodiscard]] result apply_parameters(const parameters& p, plan_request& request);

using prescribed_thresholds = std::vector<std::pair<pattern, std::vector<plan_override::range>>>;
[[nodiscard]] result read_thresholds(const json& value, const std::string& where, prescribed_thresholds& out);
[[nodiscard]] json write_thresholds(const prescribed_thresholds& thresholds);

}  // namespace xyl::topo
