// SPDX-License-Identifier: BSD-3-Clause
// From a graph and the GPUs of the ranks to a plan. The plan depends on the hardware alone: permuting ranks,
// vertices or the order in which devices were found permutes the numbers in it and nothing else. A pair that cannot
// reach each other (a probe's veto) is staged through host memory and said so; it is never an error.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "topo/cost_constants.hpp"
#include "topo/graph.hpp"
#include "topo/plan.hpp"

namespace xyl::topo {

// What a person prescribes instead of the planner's choice (XYLEM_PLAN's file; plan_override.hpp reads it).
struct plan_override {
  struct range {
    std::uint64_t up_to_bytes;
    method how;
  };
  std::vector<std::vector<int>> rings;                             // ranks; empty: the planner's
  std::vector<std::pair<pattern, std::vector<range>>> thresholds;  // sizes rise, the last is the largest there is
};

struct plan_request {
  std::vector<vertex_id> gpu_of_rank;  // several ranks may share a GPU
  std::vector<pattern> what = {pattern::all_reduce, pattern::all_gather, pattern::reduce_scatter,
                               pattern::broadcast, pattern::all_to_all};
  std::optional<int> root;       // of broadcasts; without it the first GPU's
  std::optional<method> forced;  // XYLEM_ALGO: every allreduce
  bool deterministic = false;    // XYLEM_DETERMINISTIC: algorithms that add in rank order only
  std::optional<plan_override> override_with;
  bool host_staged = false;  // plan as if no pair could reach each other
  cost_constants constants;
};

// Errors (xylInvalidUsage): what is prescribed does not fit so many ranks.
[[nodiscard]] result check_override(const plan_override& o, std::size_t ranks);

// One rank on each GPU, in the order of graph::gpus().
[[nodiscard]] plan_request one_rank_per_gpu(const graph& g);

// Errors: xylInvalidArgument (no rank, too many, a rank that is not on a GPU, a root that is no rank),
// xylInvalidUsage (an override that does not fit the ranks). out is then untouched.
result make_plan(const graph& g, const plan_request& request, plan& out);

}  // namespace xyl::topo
