// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_rank.hpp"

#include <climits>

#include "tools/perf_check.hpp"

namespace xyl {

result perf_team::allocate(std::size_t bytes) {
  for (perf_rank& r : own) {
    XYL_TRY(r.memory->allocate(bytes + guard_bytes, r.send));
    XYL_TRY(r.memory->allocate(bytes + guard_bytes, r.recv));
  }
  return {};
}

void perf_team::count_wrong(const std::string& what, const fault_count& here, std::int64_t& wrong) {
  const std::int64_t speaker = place.smallest(here.wrong > 0 ? here.rank : INT_MAX);
  const std::int64_t everywhere = place.sum(here.wrong);
  if (here.wrong > 0 && speaker == here.rank)
    std::fprintf(stderr, "xylem-perf: WRONG RESULT: %s: rank %d: %s (%lld wrong here, %lld on all ranks)\n",
                 what.c_str(), here.rank, here.first.c_str(), static_cast<long long>(here.wrong),
                 static_cast<long long>(everywhere));
  wrong += everywhere;
}

}  // namespace xyl
