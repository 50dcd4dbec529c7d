// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_layer_report.hpp"

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

const char* mode_text(const layer_row& row) { return row.fused ? "fused" : "unfused"; }
double step_us(const layer_row& row) { return row.seconds * 1e6; }
double call_us(const layer_row& row) { return step_us(row) / row.calls; }

}  // namespace

std::int64_t wrong_elements(const layer_report& report) {
  std::int64_t wrong = 0;
  for (const layer_row& row : report.rows) wrong += std::max<std::int64_t>(row.wrong, 0);
  return wrong;
}

std::string header_text(const layer_report& report) {
  const model_options& m = report.options.model;
  std::string text = title_text(report) + "# ";
  if (!m.preset.empty()) text += m.preset + ": ";
  text += format_text("hidden %d, %s, weight %s%s", m.hidden, info_of(report.options.types.front()).name,
                      m.fp32_weight ? "float" : "the same", m.gemma_style ? ", Gemma style" : "");
  text += report.device_memory ? "; a step is one CUDA graph\n# " : "; a step is a loop\n# ";
  text += method_text(report.options) + "\n" + places_text(report) + "#\n";
  text += format_text("# %16s%9s%9s%9s%12s%12s%12s%14s%8s\n", "pattern", "mode", "tokens", "layers", "allreduces",
                      "size", "step", "allreduce", "#wrong");
  return text +
         format_text("# %16s%9s%9s%9s%12s%12s%12s%14s\n", "", "", "", "", "(per step)", "(B)", "(us)", "(us)");
}

std::string row_text(const layer_report& report, const layer_row& row) {
  return format_text("  %16s%9s%9zu%9d%12d%12llu", info_of(row.pattern).name, mode_text(row), row.tokens,
                     report.options.model.layers, row.calls, static_cast<unsigned long long>(row.bytes)) +
         number_text(step_us(row), 12) + number_text(call_us(row), 14) +
         (row.wrong < 0 ? format_text("%8s", "N/A") : format_text("%8lld", static_cast<long long>(row.wrong))) +
         "\n";
}

std::string footer_text(const layer_report& report) {
  const std::int64_t wrong = wrong_elements(report);
  const char* verdict = wrong > 0 ? "FAILED" : report.options.checks > 0 ? "OK" : "NOT CHECKED";
  return format_text("# Out of bounds values : %lld %s\n", static_cast<long long>(wrong), verdict);
}

std::string json_text(const layer_report& report) {
  const model_options& m = report.options.model;
  nlohmann::ordered_json json = facts_json(report);
  if (!m.preset.empty()) json["preset"] = m.preset;
  json["layers"] = m.layers;
  json["hidden"] = m.hidden;
  json["type"] = info_of(report.options.types.front()).name;
  json["gemma_style"] = m.gemma_style;
  json["fp32_weight"] = m.fp32_weight;
  json["rows"] = nlohmann::ordered_json::array();
  for (const layer_row& row : report.rows) {
    nlohmann::ordered_json line = {{"pattern", info_of(row.pattern).name},
                                   {"mode", mode_text(row)},
                                   {"tokens", row.tokens},
                                   {"allreduces", row.calls},
                                   {"bytes", row.bytes},
                                   {"step_us", step_us(row)},
                                   {"allreduce_us", call_us(row)}};
    if (row.wrong >= 0) line["wrong"] = row.wrong;
    json["rows"].push_back(line);
  }
  json["wrong_elements"] = wrong_elements(report);
  // A host name need not be UTF-8; a replacement character is better than no file.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string csv_header(const layer_report&) {
  return "pattern,mode,tokens,layers,allreduces,bytes,step_us,allreduce_us,wrong\n";
}

std::string csv_row(const layer_report& report, const layer_row& row) {
  return format_text("%s,%s,%zu,%d,%d,%llu,%.6g,%.6g,", info_of(row.pattern).name, mode_text(row), row.tokens,
                     report.options.model.layers, row.calls, static_cast<unsigned long long>(row.bytes),
                     step_us(row), call_us(row)) +
         (row.wrong < 0 ? "" : std::to_string(row.wrong)) + "\n";
}

}  // namespace xyl
