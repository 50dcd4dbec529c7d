// SPDX-License-Identifier: BSD-3-Clause
#include "topo/cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace xyl::topo {

line cost_of_phase(const fabric& f, const phase& p, const load_table& loads) {
  if (p.transfers.empty()) return {};
  double flag_us = 0;
  for (const transfer& t : p.transfers)
    flag_us = std::max(flag_us, f.between(f.gpu_of_member[t.from], f.gpu_of_member[t.to]).flag_us);
  double round_us = p.flag_ways * flag_us + f.constants.sync_us;
  if (p.copy_engine) round_us += f.constants.copy_engine_step_us;
  return {p.rounds * round_us, p.stretch * loads.time_per_byte(f, p.copy_engine)};
}

line cost_of(const fabric& f, const schedule& s) {
  line sum{f.constants.launch_us, 0};
  for (const phase& p : s.phases) {
    const line one = cost_of_phase(f, p, loads_of(f, p));
    sum.fixed_us += one.fixed_us;
    sum.ns_per_byte += one.ns_per_byte;
  }
  return sum;
}

std::vector<lowest> envelope(const std::vector<line>& lines) {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  std::vector<lowest> found;
  if (lines.empty()) return found;
  std::uint32_t at = 0;
  for (std::uint32_t i = 1; i < lines.size(); ++i)
    if (lines[i].fixed_us < lines[at].fixed_us ||
        (lines[i].fixed_us == lines[at].fixed_us && lines[i].ns_per_byte < lines[at].ns_per_byte))
      at = i;
  for (;;) {
    // The next line to fall below this one; of several at the same size the flattest.
    std::uint32_t next = at;
    double where = std::numeric_limits<double>::infinity();
    for (std::uint32_t i = 0; i < lines.size(); ++i) {
      if (!(lines[i].ns_per_byte < lines[at].ns_per_byte)) continue;
      const double crossing =
          (lines[i].fixed_us - lines[at].fixed_us) * 1000 / (lines[at].ns_per_byte - lines[i].ns_per_byte);
      if (crossing < where || (crossing == where && lines[i].ns_per_byte < lines[next].ns_per_byte)) {
        where = crossing;
        next = i;
      }
    }
    if (next == at || where >= 9e18) {
      found.push_back({largest, at});
      return found;
    }
    const auto up_to = static_cast<std::uint64_t>(std::floor(std::max(0.0, where)));
    if (found.empty() || up_to > found.back().up_to_bytes) found.push_back({up_to, at});
    at = next;
  }
}

}  // namespace xyl::topo
