// SPDX-License-Identifier: BSD-3-Clause
#include "topo/choosing.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace xyl::topo {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

// The ranges of the candidates that `may_win` lets through.
template <typename Allowed>
std::vector<size_range> ranges_of(const std::vector<candidate>& candidates, Allowed may_win) {
  std::vector<line> lines;
  std::vector<std::uint32_t> index;
  for (std::uint32_t i = 0; i < candidates.size(); ++i)
    if (may_win(candidates[i])) {
      lines.push_back(candidates[i].cost);
      index.push_back(i);
    }
  std::vector<size_range> ranges;
  for (const lowest& l : envelope(lines)) ranges.push_back({l.up_to_bytes, index[l.index]});
  return ranges;
}

void prescribe(const std::vector<plan_override::range>& wanted, collective_plan& c,
               std::vector<std::string>& notes) {
  std::vector<size_range> ranges;
  std::uint64_t from = 0;
  for (const plan_override::range& w : wanted) {
    const auto one = ranges_of(c.candidates, [&](const candidate& x) { return x.how == w.how; });
    if (one.empty())
      notes.push_back(std::string(name_of(w.how)) + " is prescribed for " + name_of(c.what) + " up to " +
                      std::to_string(w.up_to_bytes) + " bytes, but is not possible there; the fastest is used");
    const auto fastest = ranges_of(c.candidates, [](const candidate&) { return true; });
    for (const size_range& r : one.empty() ? fastest : one) {
      if (r.up_to_bytes < from) continue;
      ranges.push_back({std::min(r.up_to_bytes, w.up_to_bytes), r.candidate});
      if (r.up_to_bytes >= w.up_to_bytes) break;
    }
    from = w.up_to_bytes == largest ? largest : w.up_to_bytes + 1;
  }
  c.ranges = std::move(ranges);
  c.reason = "the plan file prescribes the algorithms";
}

}  // namespace

void choose_by_size(const plan_request& request, collective_plan& c, std::vector<std::string>& notes) {
  if (request.override_with)
    for (const auto& [what, wanted] : request.override_with->thresholds)
      if (what == c.what) return prescribe(wanted, c, notes);
  if (request.forced && c.what == pattern::all_reduce) {
    c.ranges = ranges_of(c.candidates, [&](const candidate& x) { return x.how == *request.forced; });
    if (!c.ranges.empty()) {
      c.reason = std::string("XYLEM_ALGO=") + name_of(*request.forced);
      return;
    }
    notes.push_back(std::string("XYLEM_ALGO=") + name_of(*request.forced) + " is not possible here");
  }
  const bool adds = c.what == pattern::all_reduce || c.what == pattern::reduce_scatter;
  if (request.deterministic && adds) {
    c.ranges = ranges_of(c.candidates, [](const candidate& x) { return in_rank_order(x.how); });
    c.reason = "XYLEM_DETERMINISTIC=1";
  } else {
    c.ranges = ranges_of(c.candidates, [](const candidate&) { return true; });
  }
}

}  // namespace xyl::topo
