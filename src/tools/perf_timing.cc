// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_timing.hpp"

#include <algorithm>

namespace xyl {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

result wait_for_work(perf_team& team, const char* function) {
  for (perf_rank& r : team.own) {
    XYL_TRY(r.memory->wait());
    xylResult_t code = xylSuccess;
    if (const xylResult_t asked = xylCommGetAsyncError(r.comm, &code); asked != xylSuccess) code = asked;
    if (code != xylSuccess)
      return error(code, "%s failed on rank %d: %s: %s", function, r.rank, xylGetErrorString(code),
                   xylGetLastError(r.comm));
  }
  return {};
}

result time_once(perf_team& team, const work& calls, double& seconds) {
  team.place.barrier();
  for (perf_rank& r : team.own) XYL_TRY(r.memory->start_clock());
  XYL_TRY(calls());
  double slowest = 0;
  for (perf_rank& r : team.own) {
    XYL_TRY(r.memory->stop_clock(seconds));
    slowest = std::max(slowest, seconds);
  }
  seconds = team.place.largest(slowest);
  return {};
}

result time_singly(perf_team& team, const std::function<void()>& prepare, const work& call, int times,
                   double& seconds) {
  std::vector<double> all;
  for (int i = 0; i < times; ++i) {
    prepare();
    XYL_TRY(time_once(team, call, seconds));
    all.push_back(seconds);
  }
  seconds = median(std::move(all));
  return {};
}

void rewrite(const void* buffer, std::size_t bytes) {
  // One store takes a line away from all other caches. Volatile: the compiler must not see that nothing changes.
  constexpr std::size_t line_bytes = 64;
  auto* const at = static_cast<volatile std::byte*>(const_cast<void*>(buffer));
  for (std::size_t i = 0; i < bytes; i += line_bytes) at[i] = at[i];
  if (bytes > 0) at[bytes - 1] = at[bytes - 1];
}

result record_graph(perf_team& team, const work& calls, work& launch) {
  perf_memory& first = *team.own.front().memory;
  const work joined = [&]() -> result {
    for (std::size_t i = 1; i < team.own.size(); ++i) XYL_TRY(team.own[i].memory->follow(first));
    XYL_TRY(calls());
    for (std::size_t i = 1; i < team.own.size(); ++i) XYL_TRY(first.follow(*team.own[i].memory));
    return {};
  };
  return first.record(joined, launch);
}

result choose_repeats(perf_team& team, const std::function<result(int times)>& trial, int most, int& out) {
  int times = 1;
  double seconds = 0;
  while (true) {
    XYL_TRY(time_once(
        team, [&] { return trial(times); }, seconds));
    if (seconds > wanted_seconds / 4 || times == most) break;
    times = std::min(most, times * 4);
  }
  const double each = seconds / times;
  out = each * most <= wanted_seconds ? most : std::max(3, static_cast<int>(wanted_seconds / each));
  return {};
}

}  // namespace xyl
