// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_report.hpp"

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

using unsigned_long = unsigned long long;

double ratio(const placement_result& p) { return p.seconds > 0 ? p.mpi_seconds / p.seconds : 0; }

// "none" where nothing is reduced, as nccl-tests has it, or nothing is moved.
const char* operation_text(const perf_row& row) { return row.operation ? info_of(*row.operation).name : "none"; }

const char* type_text(const perf_row& row) { return row.count > 0 ? info_of(row.type).name : "none"; }

std::string placement_text(const perf_report& report, const perf_row& row, const placement_result& p) {
  if (!p.is_measured)
    return format_text("%10s%9s%9s%8s", "N/A", "N/A", "N/A", "N/A") +
           (report.options.compare ? format_text("%11s%8s", "N/A", "N/A") : "");
  std::string text =
      number_text(p.seconds * 1e6, 10) + number_text(algorithm_bandwidth(row, p), 9) +
      number_text(bus_bandwidth(report, row, p), 9) +
      (p.wrong < 0 ? format_text("%8s", "N/A") : format_text("%8lld", static_cast<long long>(p.wrong)));
  if (report.options.compare)
    text += p.mpi_seconds > 0 ? number_text(p.mpi_seconds * 1e6, 11) + format_text("%8.2f", ratio(p))
                              : format_text("%11s%8s", "N/A", "N/A");
  return text;
}

nlohmann::ordered_json placement_json(const perf_report& report, const perf_row& row, const placement_result& p) {
  if (!p.is_measured) return nullptr;
  nlohmann::ordered_json json;
  json["time_us"] = p.seconds * 1e6;
  json["algorithm_bandwidth"] = algorithm_bandwidth(row, p);
  json["bus_bandwidth"] = bus_bandwidth(report, row, p);
  if (p.wrong >= 0) json["wrong"] = p.wrong;
  if (p.mpi_seconds > 0) {
    json["mpi_time_us"] = p.mpi_seconds * 1e6;
    json["mpi_ratio"] = ratio(p);
  }
  return json;
}

std::string csv_placement(const perf_report& report, const perf_row& row, const placement_result& p) {
  if (!p.is_measured) return report.options.compare ? ",,,,,," : ",,,,";
  std::string text =
      format_text(",%.6g,%.6g,%.6g,", p.seconds * 1e6, algorithm_bandwidth(row, p), bus_bandwidth(report, row, p));
  if (p.wrong >= 0) text += std::to_string(p.wrong);
  if (report.options.compare)
    text += p.mpi_seconds > 0 ? format_text(",%.6g,%.6g", p.mpi_seconds * 1e6, ratio(p)) : ",,";
  return text;
}

}  // namespace

double algorithm_bandwidth(const perf_row& row, const placement_result& placement) {
  return placement.seconds > 0 ? static_cast<double>(row.bytes) / placement.seconds * 1e-9 : 0;
}

double bus_bandwidth(const perf_report& report, const perf_row& row, const placement_result& placement) {
  return algorithm_bandwidth(row, placement) * report.bus_factor;
}

double average_bus_bandwidth(const perf_report& report) {
  double sum = 0;
  int measured = 0;
  for (const perf_row& row : report.rows)
    for (const placement_result* p : {&row.out_of_place, &row.in_place}) {
      if (!p->is_measured) continue;
      sum += bus_bandwidth(report, row, *p);
      ++measured;
    }
  return measured == 0 ? 0 : sum / measured;
}

std::int64_t wrong_elements(const perf_report& report) {
  std::int64_t wrong = 0;
  for (const perf_row& row : report.rows)
    for (const placement_result* p : {&row.out_of_place, &row.in_place})
      if (p->wrong > 0) wrong += p->wrong;
  return wrong;
}

std::string header_text(const perf_report& report) {
  const perf_options& o = report.options;
  std::string text = title_text(report);
  text += format_text("# from %llu to %llu bytes, step %s %llu; ", static_cast<unsigned_long>(o.least_bytes),
                      static_cast<unsigned_long>(o.most_bytes), o.step_factor > 1 ? "x" : "+",
                      static_cast<unsigned_long>(o.step_factor > 1 ? o.step_factor : o.step_bytes));
  text += method_text(o) + "\n" + places_text(report);
  if (o.compare)
    text += "# mpi: " + report.mpi_version + ", measured in turn with Xylem; ratio: its time divided by Xylem's\n";
  const int width = o.compare ? 55 : 36;
  const std::string columns =
      std::string("      time    algbw    busbw  #wrong") + (o.compare ? "        mpi   ratio" : "");
  const std::string units =
      std::string("      (us)   (GB/s)   (GB/s)        ") + (o.compare ? "       (us)        " : "");
  text += format_text("#\n# %56s%*s%*s\n", "", width, "out-of-place", width, "in-place");
  text += format_text("# %12s%14s%12s%10s%8s%s%s\n", "size", "count", "type", "redop", "root", columns.c_str(),
                      columns.c_str());
  text += format_text("# %12s%14s%12s%10s%8s%s%s\n", "(B)", "(elements)", "", "", "", units.c_str(), units.c_str());
  text.erase(text.find_last_not_of(" \n") + 1);
  return text + "\n";
}

std::string row_text(const perf_report& report, const perf_row& row) {
  return format_text("  %12llu%14llu%12s%10s%8d", static_cast<unsigned_long>(row.bytes),
                     static_cast<unsigned_long>(row.count), type_text(row), operation_text(row), row.root) +
         placement_text(report, row, row.out_of_place) + placement_text(report, row, row.in_place) + "\n";
}

std::string footer_text(const perf_report& report) {
  const std::int64_t wrong = wrong_elements(report);
  const char* verdict = wrong > 0 ? "FAILED" : report.options.checks > 0 ? "OK" : "NOT CHECKED";
  return format_text("# Out of bounds values : %lld %s\n# Avg bus bandwidth    : %.6g\n",
                     static_cast<long long>(wrong), verdict, average_bus_bandwidth(report));
}

std::string json_text(const perf_report& report) {
  nlohmann::ordered_json json = facts_json(report);
  json["rows"] = nlohmann::ordered_json::array();
  for (const perf_row& row : report.rows)
    json["rows"].push_back({{"bytes", row.bytes},
                            {"count", row.count},
                            {"type", type_text(row)},
                            {"operation", operation_text(row)},
                            {"root", row.root},
                            {"iterations", row.iterations},
                            {"out_of_place", placement_json(report, row, row.out_of_place)},
                            {"in_place", placement_json(report, row, row.in_place)}});
  json["wrong_elements"] = wrong_elements(report);
  json["average_bus_bandwidth"] = average_bus_bandwidth(report);
  // A host name need not be UTF-8; a replacement character is better than no file.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string csv_header(const perf_report& report) {
  std::string text = "bytes,count,type,operation,root,iterations";
  for (const char* placement : {"out_of_place", "in_place"}) {
    for (const char* column : {"time_us", "algorithm_bandwidth", "bus_bandwidth", "wrong"})
      text += format_text(",%s_%s", placement, column);
    if (report.options.compare) text += format_text(",%s_mpi_time_us,%s_mpi_ratio", placement, placement);
  }
  return text + "\n";
}

std::string csv_row(const perf_report& report, const perf_row& row) {
  return format_text("%llu,%llu,%s,%s,%d,%d", static_cast<unsigned_long>(row.bytes),
                     static_cast<unsigned_long>(row.count), type_text(row), operation_text(row), row.root,
                     row.iterations) +
         csv_placement(report, row, row.out_of_place) + csv_placement(report, row, row.in_place) + "\n";
}

}  // namespace xyl
