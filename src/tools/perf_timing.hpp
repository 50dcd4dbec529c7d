// SPDX-License-Identifier: BSD-3-Clause
//
// How work of a team is timed: barrier, clocks, work, clocks; the slowest rank of all counts. Work of several ranks
// in a CUDA graph starts from the first one's stream and comes back to it, whether the library joins the streams or
// not.
#pragma once

#include <vector>

#include "tools/perf_rank.hpp"

namespace xyl {

// A repetition that lasts this long makes clock reading and barrier skew a small part of it.
inline constexpr double wanted_seconds = 5e-3;

double median(std::vector<double> values);

// Waits for the work of all own ranks. function: for the message if it failed on its stream.
result wait_for_work(perf_team& team, const char* function);

result time_once(perf_team& team, const work& calls, double& seconds);

// The same of so many single calls, each after its preparation, which is not timed: their median. With calls so
// short that ranks leaving the barrier one after the other shows: some tenths of a microsecond.
result time_singly(perf_team& team, const std::function<void()>& prepare, const work& call, int times,
                   double& seconds);

// As if the bytes were computed anew: their lines are this processor's alone from then on. The values stay.
void rewrite(const void* buffer, std::size_t bytes);

// Makes a launch of a CUDA graph of what `calls` enqueues on the own ranks' streams.
result record_graph(perf_team& team, const work& calls, work& launch);

// How often to run work of which a trial of n times is `trial(n)`: wanted_seconds long, but from 3 to `most` times.
// All ranks decide alike, from the slowest one's time.
result choose_repeats(perf_team& team, const std::function<result(int times)>& trial, int most, int& out);

}  // namespace xyl
