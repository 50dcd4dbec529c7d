// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_sweep.hpp"

#include <algorithm>
#include <numeric>

#include "tools/perf_table.hpp"
#include "tools/perf_task.hpp"
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

namespace {

class sweep_task final : public perf_task {
 public:
  run_facts& facts() override { return report_; }
  std::string objection(int ranks) const override;
  result run(perf_team& team, std::ofstream& csv) override;
  std::string json() const override { return json_text(report_); }
  std::int64_t wrong() const override { return wrong_elements(report_); }

 private:
  const perf_collective& collective() const {
    return *std::find_if(perf_collectives().begin(), perf_collectives().end(),
                         [&](const perf_collective& c) { return report_.options.collective == c.name; });
  }
  perf_report report_;
};

std::string sweep_task::objection(int ranks) const {
  const perf_options& options = report_.options;
  if (collective().has_root && options.root >= ranks)
    return format_text("--root %d, but the %d ranks are 0 to %d", options.root, ranks, ranks - 1);
  return "";
}

result sweep_task::run(perf_team& team, std::ofstream& csv) {
  const perf_collective& measured = collective();
  if (team.is_main) report_.bus_factor = measured.bus_factor(team.ranks);
  const std::vector<perf_line> lines = plan_lines(team.options, measured, team.ranks);
  std::uint64_t most_bytes = 0;
  for (const perf_line& l : lines)
    most_bytes = std::max(most_bytes, message_bytes(measured, l.count, info_of(l.type).size, team.ranks));
  XYL_TRY(team.allocate(most_bytes));
  measurement measuring(measured, team);
  XYL_TRY(fill_table(
      team, report_, report_.rows, lines, csv,
      [&](const perf_line& line, perf_row& row) { return measuring.measure(line, row); },
      [](const perf_line& l) {
        return format_text("%zu %s, %s", l.count, info_of(l.type).name, info_of(l.operation).name);
      }));
  return team.release();
}

}  // namespace

std::unique_ptr<perf_task> make_sweep_task() { return std::make_unique<sweep_task>(); }

}  // namespace xyl
