// SPDX-License-Identifier: BSD-3-Clause
//
// What xylem-perf prints and writes: the table with nccl-tests' columns, JSON, CSV. Pure text from plain data; only
// rank 0 uses it. Bandwidths are in 10^9 bytes per second.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/perf_options.hpp"

namespace xyl {

// Out of place or in place.
struct placement_result {
  double seconds = 0;       // per call
  double mpi_seconds = 0;   // per call of the MPI library; 0: not measured
  std::int64_t wrong = -1;  // elements over all ranks and checks; -1: not checked
  bool is_measured = true;  // false: the collective has no in-place form
};

struct perf_row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  xylDataType_t type = xylFloat32;
  std::optional<xylRedOp_t> operation;  // none: does not reduce
  int root = -1;
  int iterations = 0;
  placement_result out_of_place;
  placement_result in_place;
};

struct rank_place {
  std::string host;
  int process = 0;
  int device = -1;  // -1: host memory
  std::string device_text;
};

// What was run where.
struct run_facts {
  std::string version;      // of the library
  std::string mpi_version;  // first line of what MPI says of itself
  perf_options options;
  bool device_memory = false;
  std::vector<rank_place> places;  // in rank order
};

struct perf_report : run_facts {
  double bus_factor = 1;
  std::vector<perf_row> rows;
};

// The pieces that all reports have: the first line, how it is measured (without a line end), who is where; JSON.
std::string title_text(const run_facts& facts);
std::string method_text(const perf_options& options);
std::string places_text(const run_facts& facts);
nlohmann::ordered_json facts_json(const run_facts& facts);
// As many decimals as keep about four digits; a number too long for its column pushes the rest to the right.
std::string number_text(double value, int width);

double algorithm_bandwidth(const perf_row& row, const placement_result& placement);
double bus_bandwidth(const perf_report& report, const perf_row& row, const placement_result& placement);
// Over all that was measured; 0 without rows.
double average_bus_bandwidth(const perf_report& report);
// Wrong elements of all rows.
std::int64_t wrong_elements(const perf_report& report);

// The table, in the pieces in which it is printed.
std::string header_text(const perf_report& report);
std::string row_text(const perf_report& report, const perf_row& row);
std::string footer_text(const perf_report& report);

std::string json_text(const perf_report& report);
std::string csv_header(const perf_report& report);
std::string csv_row(const perf_report& report, const perf_row& row);

}  // namespace xyl
