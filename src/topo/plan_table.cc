// SPDX-License-Identifier: BSD-3-Clause
#include "topo/plan_table.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "proto/call.hpp"

namespace xyl::topo {

static_assert(static_cast<std::uint32_t>(island_kind::node) + 1 == plan_table::levels);
static_assert(sizeof(plan_table) % sizeof(std::uint64_t) == 0);

result make_table(const plan& p, plan_table& out) {
  if (p.places.size() > plan_table::most_ranks)
    return error(xylInvalidArgument, "a plan of %zu ranks; the table has room for %u", p.places.size(),
                 plan_table::most_ranks);
  std::memset(&out, 0, sizeof out);
  out.ranks = static_cast<std::uint32_t>(p.places.size());
  out.rings = static_cast<std::uint32_t>(std::min<std::size_t>(p.rings.size(), plan_table::most_rings));
  out.trees = static_cast<std::uint32_t>(std::min<std::size_t>(p.trees.size(), plan_table::most_trees));
  out.host_staged = p.host_staged;
  out.collapse_flagged = p.collapse_flagged;
  for (std::uint32_t r = 0; r < out.rings; ++r)
    for (std::size_t i = 0; i < p.rings[r].size(); ++i) out.ring[r][i] = static_cast<std::uint16_t>(p.rings[r][i]);
  for (std::uint32_t t = 0; t < out.trees; ++t)
    for (std::size_t i = 0; i < p.trees[t].size(); ++i)
      out.parent[t][i] = p.trees[t][i] < 0 ? plan_table::none : static_cast<std::uint16_t>(p.trees[t][i]);
  for (auto& level : out.island) std::fill_n(level, out.ranks, plan_table::none);
  for (const island_set& set : p.islands)
    for (std::size_t i = 0; i < set.ranks.size(); ++i)
      for (int rank : set.ranks[i])
        out.island[static_cast<std::size_t>(set.kind)][rank] = static_cast<std::uint16_t>(i);
  for (const collective_plan& c : p.collectives) {
    plan_table::thresholds& t = out.of[static_cast<std::size_t>(c.what)];
    for (std::size_t i = 0; i < c.ranges.size(); ++i) {
      // Never seen: more ranges than there is room for. The last one stays, it covers all larger sizes.
      if (t.count == plan_table::most_ranges - 1 && i + 1 < c.ranges.size()) continue;
      const candidate& x = c.candidates[c.ranges[i].candidate];
      plan_table::range& r = t.ranges[t.count++];
      r.up_to_bytes = c.ranges[i].up_to_bytes;
      r.how = static_cast<std::uint8_t>(x.how);
      r.inside = static_cast<std::uint8_t>(x.inside);
      r.across = static_cast<std::uint8_t>(x.across);
      r.staged = x.staged;
      r.by_ring = x.by_ring;
      r.level = static_cast<std::uint8_t>(x.level);
    }
  }
  return {};
}

const plan_table::range* plan_table::choose(pattern what, std::uint64_t bytes) const {
  const thresholds& t = of[static_cast<std::size_t>(what)];
  for (std::uint64_t i = 0; i < t.count; ++i)
    if (bytes <= t.ranges[i].up_to_bytes) return &t.ranges[i];
  return nullptr;
}

std::uint64_t plan_table::hash() const {
  std::array<std::uint64_t, sizeof(plan_table) / sizeof(std::uint64_t)> words;
  std::memcpy(words.data(), this, sizeof *this);
  std::uint64_t h = 0;
  for (std::uint64_t w : words) h = mix64((h + 0x9e3779b97f4a7c15ull) ^ w);
  return h;
}

bool plan_table::plausible(std::uint32_t of_ranks) const {
  if (ranks != of_ranks || ranks == 0 || ranks > most_ranks || rings == 0 || rings > most_rings ||
      trees > most_trees)
    return false;
  for (std::uint32_t r = 0; r < rings; ++r) {
    std::array<bool, most_ranks> seen{};
    for (std::uint32_t i = 0; i < ranks; ++i) {
      if (ring[r][i] >= ranks || seen[ring[r][i]]) return false;
      seen[ring[r][i]] = true;
    }
  }
  for (std::uint32_t t = 0; t < trees; ++t)
    for (std::uint32_t i = 0; i < ranks; ++i) {
      std::uint32_t steps = 0;
      for (std::uint32_t at = i; at != none; at = parent[t][at])
        if (at >= ranks || ++steps > ranks) return false;
    }
  for (const auto& level : island)
    for (std::uint32_t i = 0; i < ranks; ++i)
      if (level[i] != none && level[i] >= ranks) return false;
  for (const thresholds& t : of) {
    if (t.count > most_ranges) return false;
    for (std::uint64_t i = 0; i < t.count; ++i) {
      const range& r = t.ranges[i];
      if (r.how >= methods || r.inside > 1 || r.across > 1 || r.staged > 1 || r.by_ring > 1 || r.level >= levels)
        return false;
      if (i > 0 && r.up_to_bytes <= t.ranges[i - 1].up_to_bytes) return false;
    }
    if (t.count > 0 && t.ranges[t.count - 1].up_to_bytes != std::numeric_limits<std::uint64_t>::max()) return false;
  }
  return true;
}

}  // namespace xyl::topo
