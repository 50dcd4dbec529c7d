// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_sweep.hpp"

#include <algorithm>
#include <numeric>

#include "tools/perf_progress.hpp"
#include "tools/perf_types.hpp"

namespace xyl {

std::vector<perf_line> plan_lines(const perf_options& options, const perf_collective& collective, int ranks) {
  const bool has_buffers = collective.send != extent::none;
  std::vector<int> roots = {collective.has_root ? options.root : -1};
  if (collective.has_root && options.root == all_roots) {
    roots.resize(static_cast<std::size_t>(ranks));
    std::iota(roots.begin(), roots.end(), 0);
  }
  const std::vector<xylRedOp_t> operations =
      collective.reduces ? options.operations : std::vector<xylRedOp_t>{xylSum};
  std::vector<perf_line> lines;
  for (xylDataType_t type : options.types)
    for (xylRedOp_t operation : operations) {
      if (!go_together(info_of(type), info_of(operation))) continue;
      for (int root : roots) {
        std::size_t last = 0;
        for (std::uint64_t bytes : sizes_of(options)) {
          const std::size_t count = count_for(collective, bytes, info_of(type).size, ranks);
          if (count != last || !has_buffers) lines.push_back({type, operation, root, count});
          if (!has_buffers) return lines;
          last = count;
        }
      }
    }
  return lines;
}

result sweep(perf_team& team, const perf_collective& collective, perf_report* report, bool speaks,
             std::ofstream& csv) {
  const std::vector<perf_line> lines = plan_lines(team.options, collective, team.ranks);
  std::uint64_t most_bytes = 0;
  for (const perf_line& l : lines)
    most_bytes = std::max(most_bytes, message_bytes(collective, l.count, info_of(l.type).size, team.ranks));
  XYL_TRY(team.allocate(most_bytes));
  measurement measuring(collective, team);
  progress_line progress(lines.size(), speaks);
  const auto print = [&](std::string (*text)(const perf_report&)) {
    progress.clear();
    if (speaks) std::fputs(text(*report).c_str(), stdout);
    std::fflush(stdout);
  };
  print(header_text);
  if (report && csv.is_open()) csv << csv_header(*report);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const perf_line& l = lines[i];
    progress.begin(i, format_text("%zu %s, %s", l.count, info_of(l.type).name, info_of(l.operation).name));
    perf_row row;
    result measured = measuring.measure(l, row);
    if (!measured.ok()) progress.clear();
    XYL_TRY(std::move(measured));
    if (!report) continue;
    report->rows.push_back(row);
    print([](const perf_report& r) { return row_text(r, r.rows.back()); });
    if (csv.is_open()) csv << csv_row(*report, row) << std::flush;
  }
  print(footer_text);
  return {};
}

}  // namespace xyl
