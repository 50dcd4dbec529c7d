// SPDX-License-Identifier: BSD-3-Clause
//
// What `decode` and `fused` print and write. Pure text from plain data. A step is all allreduces of all layers
// once.
#pragma once

#include "tools/perf_report.hpp"

namespace xyl {

struct layer_row {
  xylFusedPattern_t pattern = xylFusedResidualRMSNorm;
  bool fused = true;
  std::size_t tokens = 1;
  std::uint64_t bytes = 0;  // of one allreduce
  int calls = 1;            // allreduces of a step
  double seconds = 0;       // of a step
  std::int64_t wrong = -1;  // elements over all ranks; -1: not checked
};

struct layer_report : run_facts {
  std::vector<layer_row> rows;
};

std::int64_t wrong_elements(const layer_report& report);

std::string header_text(const layer_report& report);
std::string row_text(const layer_report& report, const layer_row& row);
std::string footer_text(const layer_report& report);
std::string json_text(const layer_report& report);
std::string csv_header(const layer_report& report);
std::string csv_row(const layer_report& report, const layer_row& row);

}  // namespace xyl
