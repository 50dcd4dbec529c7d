// SPDX-License-Identifier: BSD-3-Clause
//
// The report of `decode` and `fused` from known numbers.
#include "tools/perf_layer_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace xyl {
namespace {

layer_report example() {
  layer_report report;
  report.version = "1.2.3";
  report.options.collective = "decode";
  report.options.types = {xylBfloat16};
  report.options.model.preset = "kimi-k2";
  report.places = {{"node7", 4711, -1, ""}, {"node7", 4712, -1, ""}};
  report.rows = {{xylFusedResidualRMSNorm, true, 4, 57344, 122, 244e-6, 0},
                 {xylFusedResidualRMSNorm, false, 4, 57344, 122, 610e-6, 2}};
  return report;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(perf_layer_report, rows) {
  const layer_report report = example();
  EXPECT_EQ(words(row_text(report, report.rows[0])), words("rmsnorm fused 4 61 122 57344 244.00 2.000 0"));
  EXPECT_EQ(words(row_text(report, report.rows[1])), words("rmsnorm unfused 4 61 122 57344 610.00 5.000 2"));
  EXPECT_EQ(csv_row(report, report.rows[0]), "rmsnorm,fused,4,61,122,57344,244,2,0\n");
  const std::string header = csv_header(report);
  const std::string row = csv_row(report, report.rows[1]);
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(row.begin(), row.end(), ','));
}

TEST(perf_layer_report, header_and_verdict) {
  layer_report report = example();
  for (const char* part :
       {"decode", "2 ranks", "kimi-k2: hidden 7168, bfloat16", "a step is a loop", "pid    4711"})
    EXPECT_NE(header_text(report).find(part), std::string::npos) << part;
  report.device_memory = true;
  EXPECT_NE(header_text(report).find("a step is one CUDA graph"), std::string::npos);
  EXPECT_EQ(footer_text(report), "# Out of bounds values : 2 FAILED\n");
  report.rows[1].wrong = 0;
  EXPECT_EQ(footer_text(report), "# Out of bounds values : 0 OK\n");
  report.options.checks = 0;
  report.rows[0].wrong = report.rows[1].wrong = -1;
  EXPECT_EQ(footer_text(report), "# Out of bounds values : 0 NOT CHECKED\n");
  EXPECT_EQ(words(row_text(report, report.rows[0])).back(), "N/A");
}

TEST(perf_layer_report, json) {
  const nlohmann::json json = nlohmann::json::parse(json_text(example()));
  EXPECT_EQ(json["preset"], "kimi-k2");
  EXPECT_EQ(json["hidden"], 7168);
  EXPECT_EQ(json["type"], "bfloat16");
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["rows"][1]["mode"], "unfused");
  EXPECT_DOUBLE_EQ(json["rows"][1]["allreduce_us"], 5);
  EXPECT_EQ(json["wrong_elements"], 2);
}

}  // namespace
}  // namespace xyl
