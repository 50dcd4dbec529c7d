// SPDX-License-Identifier: BSD-3-Clause
#include "comm/by_size.hpp"

#include <algorithm>

namespace xyl {
namespace {

// The most bytes of a message that one launch carries; the largest number there is where several are as good.
std::uint64_t most_bytes(algorithm how, const by_size_limits& limits) {
  if (how == algorithm::two_shot || how == algorithm::ring) return UINT64_MAX;
  return chunk_elements(how, limits.map, limits.chunk_bytes, 1, true);
}

}  // namespace

std::optional<algorithm> algorithm_of(topo::method how) {
  for (int a = 0; a < algorithms; ++a)
    if (topo::method_of(static_cast<algorithm>(a)) == how) return static_cast<algorithm>(a);
  return std::nullopt;
}

bool runs(const topo::candidate& c) {
  return algorithm_of(c.how) && c.inside == topo::direction::push && c.across == topo::direction::push && !c.staged;
}

std::vector<selection::range> fastest_by_size(const topo::collective_plan& planned, const by_size_limits& limits) {
  std::vector<selection::range> ranges;
  for (std::uint64_t done = 0;;) {
    const std::uint64_t next = ranges.empty() ? 0 : done + 1;
    std::vector<topo::line> lines;
    std::vector<algorithm> algorithms;
    for (const topo::candidate& c : planned.candidates) {
      if (!runs(c) || (limits.deterministic && !topo::in_rank_order(c.how))) continue;
      const algorithm how = *algorithm_of(c.how);
      if (most_bytes(how, limits) < next) continue;
      lines.push_back(c.cost);
      algorithms.push_back(how);
    }
    const std::vector<topo::lowest> envelope = topo::envelope(lines);
    const auto at = std::find_if(envelope.begin(), envelope.end(),
                                 [&](const topo::lowest& l) { return l.up_to_bytes >= next; });
    if (at == envelope.end()) return {};
    const algorithm how = algorithms[at->index];
    done = std::min(at->up_to_bytes, most_bytes(how, limits));
    if (!ranges.empty() && ranges.back().how == static_cast<std::uint64_t>(how))
      ranges.back().up_to_bytes = done;
    else
      ranges.push_back({done, static_cast<std::uint64_t>(how)});
    if (done == UINT64_MAX) return ranges;
  }
}

result ranges_from(std::span<const topo::plan_override::range> wanted, bool deterministic,
                   std::vector<selection::range>& out) {
  std::vector<selection::range> ranges;
  for (const topo::plan_override::range& w : wanted) {
    const std::optional<algorithm> how = algorithm_of(w.how);
    if (!how)
      return error(
          xylInvalidUsage,
          "algorithm \"%s\" of allreduce cannot be run; packet, oneshot, twoshot, ring, twoshotpacket, ll128 and "
          "ll16 can",
          topo::name_of(w.how));
    if (deterministic && !topo::in_rank_order(w.how))
      return error(xylInvalidUsage, "algorithm \"%s\" of allreduce is ruled out by XYLEM_DETERMINISTIC=1",
                   topo::name_of(w.how));
    ranges.push_back({w.up_to_bytes, static_cast<std::uint64_t>(*how)});
  }
  if (ranges.size() > selection::most_ranges)
    return error(xylInvalidUsage, "%zu ranges of sizes for allreduce; at most %u are possible", ranges.size(),
                 selection::most_ranges);
  out = std::move(ranges);
  return {};
}

}  // namespace xyl
