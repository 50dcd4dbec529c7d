// SPDX-License-Identifier: BSD-3-Clause
// A plan as JSON, for xylCommDescribe and xylem-topo: what was chosen, what else was considered, and the predicted
// time of each. The text depends on the plan alone. Its "rings" and "thresholds" have the form that a plan file has
// (plan_file.hpp), so that a description can be edited and prescribed.
#pragma once

#include <string>

#include "topo/json_read.hpp"
#include "topo/plan.hpp"

namespace xyl::topo {

[[nodiscard]] json describe(const plan& p);
[[nodiscard]] std::string describe_text(const plan& p);

// "512", "64K", "1M", "2G": sizes as XYLEM_* variables are written; with a remainder in bytes.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace xyl::topo
