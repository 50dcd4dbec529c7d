// SPDX-License-Identifier: BSD-3-Clause
//
// How the rows of a report come out while they are measured: header, progress, row by row, footer; the same lines
// in the CSV file. On threads that do not keep rows everything but measuring is left out.
#pragma once

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tools/perf_progress.hpp"
#include "tools/perf_rank.hpp"

namespace xyl {

// measure(line, row) fills in a row; what(line) names it for the progress line.
template <class Report, class Line, class Row, class Measure, class What>
result fill_table(const perf_team& team, Report& report, std::vector<Row>& rows, const std::vector<Line>& lines,
                  std::ofstream& csv, Measure&& measure, What&& what) {
  progress_line progress(lines.size(), team.speaks);
  const auto print = [&](const std::string& text) {
    progress.clear();
    if (team.speaks) std::fputs(text.c_str(), stdout);
    if (team.speaks) std::fflush(stdout);
  };
  if (team.is_main) print(header_text(report));
  if (team.speaks && csv.is_open()) csv << csv_header(report);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    progress.begin(i, what(lines[i]));
    Row row;
    result measured = measure(lines[i], row);
    if (!measured.ok()) progress.clear();
    XYL_TRY(std::move(measured));
    if (!team.is_main) continue;
    rows.push_back(row);
    print(row_text(report, row));
    if (team.speaks && csv.is_open()) csv << csv_row(report, row) << std::flush;
  }
  if (team.is_main) print(footer_text(report));
  return {};
}

}  // namespace xyl
