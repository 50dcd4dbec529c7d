// SPDX-License-Identifier: BSD-3-Clause
//
// Measures and checks one line of the report. All ranks construct the same measurement and call the same functions
// in the same order; MPI carries the barriers, the slowest rank's times and the verdicts.
#pragma once

#include <mpi.h>

#include "tools/perf_collective.hpp"
#include "tools/perf_memory.hpp"
#include "tools/perf_report.hpp"

namespace xyl {

class measurement {
 public:
  measurement(const perf_options& options, const perf_collective& collective, xylComm_t comm, MPI_Comm mpi,
              perf_memory& memory);

  // Buffers for messages up to this size.
  result allocate(std::size_t most_bytes);

  // Fills in everything but bus bandwidth. Wrong elements are no failure: they are counted, and the lowest rank
  // that has one says so on stderr at once.
  result measure(xylDataType_t type, xylRedOp_t operation, std::size_t count, perf_row& out);

 private:
  result check_placement(const collective_call& what, std::int64_t& wrong);
  result time_placement(const collective_call& what, int& iterations, placement_result& out);
  result choose_iterations(const collective_call& what, int& iterations);
  result time_once(const work& calls, double& seconds);

  result call(const collective_call& what);
  result call_often(const collective_call& what, int times);
  result call_mpi_often(const collective_call& what, int times);
  result wait();
  result write_pattern(std::byte* to, const std::vector<std::byte>& pattern, std::size_t bytes);
  result find_wrong(const collective_call& what, const std::vector<std::byte>& expected, std::int64_t& wrong,
                    std::string& first);
  std::string describe(const collective_call& what) const;

  const perf_options& options_;
  const perf_collective& collective_;
  xylComm_t comm_;
  MPI_Comm mpi_;
  perf_memory& memory_;
  int rank_ = 0;
  int ranks_ = 0;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  std::uint64_t salt_ = 0;
};

}  // namespace xyl
