// SPDX-License-Identifier: BSD-3-Clause
//
// Measures and checks one line of the report. The threads of all processes construct the same measurement and call
// the same functions in the same order; their seats carry the barriers, the slowest rank's times and the verdicts.
#pragma once

#include "tools/perf_check.hpp"
#include "tools/perf_collective.hpp"
#include "tools/perf_rank.hpp"
#include "tools/perf_report.hpp"

namespace xyl {

// One line: what is called.
struct perf_line {
  xylDataType_t type;
  xylRedOp_t operation;
  int root;  // -1: has none
  std::size_t count;
};

class measurement {
 public:
  // The team's buffers hold message_bytes() of the lines to come.
  measurement(const perf_collective& collective, perf_team& team) : collective_(collective), team_(team) {}

  // Wrong elements are no failure: they are counted, and the lowest rank that has one says so on stderr at once.
  result measure(const perf_line& line, perf_row& out);

 private:
  using calls = std::vector<collective_call>;  // of every own rank
  calls calls_of(const perf_line& line, bool in_place) const;
  result launch_of(const calls& what, work& launch);
  result prepare(const calls& what, pattern_book& book, std::vector<buffer_check>& checks);
  result check_placement(const calls& what, std::int64_t& wrong);
  result check_buffers(const calls& what, std::int64_t& wrong);
  result check_meeting(const calls& what, std::int64_t& wrong);
  result time_placement(const calls& what, int& iterations, placement_result& out);
  result choose_iterations(const calls& what, int& iterations);

  result call(const calls& what);
  result call_often(const calls& what, int times);
  result call_mpi_often(const calls& what, int times);
  result wait();
  std::string describe(const collective_call& what) const;

  const perf_options& options() const { return team_.options; }

  const perf_collective& collective_;
  perf_team& team_;
  std::uint64_t salt_ = 0;
};

}  // namespace xyl
