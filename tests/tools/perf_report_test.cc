// SPDX-License-Identifier: BSD-3-Clause
//
// The report from known numbers: columns and units, bandwidths, verdict, and JSON and CSV that say the same.
#include "tools/perf_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace xyl {
namespace {

perf_report example(bool compare) {
  perf_report report;
  report.version = "1.2.3";
  report.mpi_version = "Some MPI 9";
  report.options.collective = "allreduce";
  report.options.compare = compare;
  report.bus_factor = 1.5;
  report.places = {{"node7", 4711, 0, "Some GPU [0000:17:00.0]"}, {"node7", 4712, -1, ""}};
  perf_row row;
  row.bytes = 1'000'000;
  row.count = 250'000;
  row.operation = xylSum;
  row.iterations = 20;
  row.out_of_place = {100e-6, compare ? 250e-6 : 0, 0};
  row.in_place = {50e-6, 0, 3};
  report.rows = {row};
  return report;
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST(perf_report, columns_and_units) {
  const std::vector<std::string> header = lines(header_text(example(false)));
  EXPECT_EQ(words(header[header.size() - 2]),
            words("# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"));
  EXPECT_EQ(words(header.back()), words("# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)"));
  EXPECT_EQ(words(header[header.size() - 3]), words("# out-of-place in-place"));
  for (const std::string& line : header) EXPECT_EQ(line.front(), '#') << line;
}

TEST(perf_report, header_says_what_runs_where) {
  const std::string header = header_text(example(false));
  for (const char* part : {"allreduce", "Xylem 1.2.3", "2 ranks", "host memory", "pid    4711 on node7", "device 0",
                           "Some GPU [0000:17:00.0]", "median of 5"})
    EXPECT_NE(header.find(part), std::string::npos) << part << " in\n" << header;
}

TEST(perf_report, a_row_lines_up_with_its_header) {
  for (bool compare : {false, true}) {
    const perf_report report = example(compare);
    const std::string row = row_text(report, report.rows[0]);
    const std::string columns = lines(header_text(report)).end()[-2];
    EXPECT_EQ(row.size(), columns.size() + 1);
    EXPECT_EQ(words(row).size(), words(columns).size() - 1);
  }
}

TEST(perf_report, bandwidths) {
  const perf_report report = example(false);
  EXPECT_EQ(words(row_text(report, report.rows[0])),
            words("1000000 250000 float sum -1 100.00 10.00 15.00 0 50.00 20.00 30.00 3"));
  EXPECT_DOUBLE_EQ(average_bus_bandwidth(report), 22.5);
  EXPECT_EQ(average_bus_bandwidth(perf_report{}), 0);
}

TEST(perf_report, unchecked_is_not_ok) {
  perf_report report = example(false);
  EXPECT_NE(footer_text(report).find("# Out of bounds values : 3 FAILED\n"), std::string::npos);
  EXPECT_NE(footer_text(report).find("# Avg bus bandwidth    : 22.5\n"), std::string::npos);
  report.rows[0].in_place.wrong = 0;
  EXPECT_NE(footer_text(report).find("# Out of bounds values : 0 OK\n"), std::string::npos);
  report.options.checks = 0;
  report.rows[0].in_place.wrong = report.rows[0].out_of_place.wrong = -1;
  EXPECT_NE(footer_text(report).find("NOT CHECKED"), std::string::npos);
  EXPECT_EQ(words(row_text(report, report.rows[0])).back(), "N/A");
}

TEST(perf_report, comparison) {
  const perf_report report = example(true);
  EXPECT_EQ(words(row_text(report, report.rows[0])),
            words("1000000 250000 float sum -1 100.00 10.00 15.00 0 250.00 2.50 50.00 20.00 30.00 3 N/A N/A"));
  EXPECT_NE(header_text(report).find("Some MPI 9"), std::string::npos);
}

TEST(perf_report, what_is_not_reduced_has_no_operation) {
  perf_report report = example(false);
  report.rows[0].operation.reset();
  report.rows[0].root = 3;
  EXPECT_EQ(words(row_text(report, report.rows[0]))[3], "none");
  EXPECT_EQ(words(row_text(report, report.rows[0]))[4], "3");
}

TEST(perf_report, without_an_in_place_form_half_of_a_row_is_not_available) {
  for (bool compare : {false, true}) {
    perf_report report = example(compare);
    report.rows[0].in_place = {0, 0, -1, false};
    const std::string row = row_text(report, report.rows[0]);
    EXPECT_EQ(row.size(), lines(header_text(report)).end()[-2].size() + 1);
    EXPECT_EQ(words(row).back(), "N/A");
    EXPECT_DOUBLE_EQ(average_bus_bandwidth(report), 15);
    EXPECT_TRUE(nlohmann::json::parse(json_text(report))["rows"][0]["in_place"].is_null());
    const std::string header = csv_header(report);
    const std::string values = csv_row(report, report.rows[0]);
    EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(values.begin(), values.end(), ','));
  }
}

TEST(perf_report, a_barrier_has_no_type) {
  perf_report report = example(false);
  report.rows[0].bytes = report.rows[0].count = 0;
  EXPECT_EQ(words(row_text(report, report.rows[0]))[2], "none");
}

TEST(perf_report, several_ranks_per_process) {
  perf_report report = example(false);
  EXPECT_EQ(header_text(report).find("thread"), std::string::npos);
  report.options.threads = 2;
  report.options.ranks_per_thread = 3;
  EXPECT_NE(header_text(report).find("processes of 2 threads that drive 3 ranks each"), std::string::npos);
}

TEST(perf_report, small_times_keep_their_digits) {
  perf_report report = example(false);
  report.rows[0].out_of_place.seconds = 0.2437e-6;
  EXPECT_EQ(words(row_text(report, report.rows[0]))[5], "0.244");
}

TEST(perf_report, json) {
  perf_report report = example(true);
  report.places[1].host = "\xff";
  const nlohmann::json json = nlohmann::json::parse(json_text(report));
  EXPECT_EQ(json["collective"], "allreduce");
  EXPECT_EQ(json["memory"], "host");
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["ranks"][0]["device"], 0);
  EXPECT_FALSE(json["ranks"][1].contains("device"));
  const nlohmann::json& row = json["rows"][0];
  EXPECT_EQ(row["bytes"], 1'000'000);
  EXPECT_EQ(row["type"], "float");
  EXPECT_DOUBLE_EQ(row["out_of_place"]["time_us"], 100);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["mpi_ratio"], 2.5);
  EXPECT_FALSE(row["in_place"].contains("mpi_ratio"));
  EXPECT_EQ(row["in_place"]["wrong"], 3);
  EXPECT_EQ(json["wrong_elements"], 3);
  EXPECT_DOUBLE_EQ(json["average_bus_bandwidth"], 22.5);
}

TEST(perf_report, csv_has_a_value_per_name) {
  for (bool compare : {false, true}) {
    const perf_report report = example(compare);
    const std::string header = csv_header(report);
    const std::string row = csv_row(report, report.rows[0]);
    EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(row.begin(), row.end(), ','));
    EXPECT_EQ(row.rfind("1000000,250000,float,sum,-1,20,100,10,15,0", 0), 0u) << row;
  }
}

}  // namespace
}  // namespace xyl
