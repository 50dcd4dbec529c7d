// SPDX-License-Identifier: BSD-3-Clause
//
// The command line: flags in both spellings, what is refused and with which words, and the sizes of a sweep.
#include "tools/perf_options.hpp"

#include <gtest/gtest.h>

#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr subcommand subcommands[] = {{"allreduce", "Sum over all ranks"}};

command_line_outcome read(std::vector<const char*> arguments, perf_options& out) {
  arguments.insert(arguments.begin(), "xylem-perf");
  return read_command_line(static_cast<int>(arguments.size()), arguments.data(), subcommands, "xylem-perf 1.2.3",
                           out);
}

perf_options read_good(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "allreduce");
  perf_options out;
  const command_line_outcome outcome = read(arguments, out);
  EXPECT_LT(outcome.exit_code, 0) << outcome.error;
  return out;
}

std::string error_of(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "allreduce");
  perf_options out;
  const command_line_outcome outcome = read(arguments, out);
  EXPECT_EQ(outcome.exit_code, exit_usage);
  EXPECT_EQ(outcome.output, "");
  return outcome.error;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(perf_options, defaults) {
  const perf_options o = read_good({});
  EXPECT_EQ(o.collective, "allreduce");
  EXPECT_EQ(o.least_bytes, 8u);
  EXPECT_EQ(o.most_bytes, 16u << 20);
  EXPECT_EQ(o.iterations, 0);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.root, 0);
  EXPECT_EQ(o.threads * o.ranks_per_thread, 1);
  EXPECT_EQ(o.repetitions, 5);
  EXPECT_EQ(o.types, std::vector<xylDataType_t>{xylFloat32});
  EXPECT_EQ(o.operations, std::vector<xylRedOp_t>{xylSum});
  EXPECT_EQ(o.memory, memory_choice::automatic);
  EXPECT_FALSE(o.compare);
  EXPECT_EQ(o.registration, 0);
}

TEST(perf_options, registration_is_that_of_nccl_tests) {
  EXPECT_EQ(read_good({"-R", "1"}).registration, 1);
  EXPECT_EQ(read_good({"--local_register", "2"}).registration, 2);
  EXPECT_TRUE(contains(error_of({"-R", "yes"}), "a whole number from 0 to 2"));
}

TEST(perf_options, short_flags) {
  const perf_options o =
      read_good({"-b", "1K", "-e", "2M", "-f", "4", "-n", "50", "-w",       "0",      "-d", "bf16", "-o", "max",
                 "-m", "3",  "-G", "10", "-c", "0", "-r", "7",  "--memory", "device", "-t", "2",    "-g", "3"});
  EXPECT_EQ(o.least_bytes, 1024u);
  EXPECT_EQ(o.most_bytes, 2u << 20);
  EXPECT_EQ(o.step_factor, 4u);
  EXPECT_EQ(o.iterations, 50);
  EXPECT_EQ(o.warmup_iterations, 0);
  EXPECT_EQ(o.types, std::vector<xylDataType_t>{xylBfloat16});
  EXPECT_EQ(o.operations, std::vector<xylRedOp_t>{xylMax});
  EXPECT_EQ(o.aggregated_calls, 3);
  EXPECT_EQ(o.graph_launches, 10);
  EXPECT_EQ(o.checks, 0);
  EXPECT_EQ(o.root, 7);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.ranks_per_thread, 3);
  EXPECT_EQ(o.memory, memory_choice::device);
}

TEST(perf_options, long_flags) {
  const perf_options o = read_good({"--minbytes",
                                    "64",
                                    "--maxbytes=128",
                                    "--stepbytes",
                                    "32",
                                    "--iters",
                                    "1",
                                    "--warmup_iters",
                                    "2",
                                    "--datatype",
                                    "all",
                                    "--op",
                                    "all",
                                    "--agg_iters",
                                    "1",
                                    "--cudagraph",
                                    "0",
                                    "--check",
                                    "2",
                                    "--json",
                                    "a.json",
                                    "--csv",
                                    "b.csv",
                                    "--root",
                                    "all",
                                    "--repetitions",
                                    "7",
                                    "--compare"});
  EXPECT_EQ(o.root, all_roots);
  EXPECT_EQ(o.repetitions, 7);
  EXPECT_EQ(sizes_of(o), (std::vector<std::uint64_t>{64, 96, 128}));
  EXPECT_EQ(o.types.size(), 14u);
  EXPECT_EQ(o.operations.size(), 8u);
  EXPECT_EQ(o.checks, 2);
  EXPECT_EQ(o.json_file, "a.json");
  EXPECT_EQ(o.csv_file, "b.csv");
  EXPECT_EQ(o.memory, memory_choice::host) << "--compare measures host memory";
}

TEST(perf_options, rewriting_is_of_host_memory) {
  EXPECT_FALSE(read_good({}).rewrite);
  const perf_options o = read_good({"--rewrite"});
  EXPECT_TRUE(o.rewrite);
  EXPECT_EQ(o.memory, memory_choice::host);
}

TEST(perf_options, every_type_and_operation_by_name) {
  for (const type_info& t : all_types()) {
    EXPECT_EQ(read_good({"-d", t.name}).types, std::vector<xylDataType_t>{t.type});
    const char* other = *t.other_name ? t.other_name : t.name;
    EXPECT_EQ(read_good({"-d", other}).types, std::vector<xylDataType_t>{t.type});
  }
  for (const operation_info& o : all_operations())
    EXPECT_EQ(read_good({"-o", o.name, "-d", "int32"}).operations, std::vector<xylRedOp_t>{o.operation});
}

TEST(perf_options, one_end_moves_the_other) {
  EXPECT_EQ(sizes_of(read_good({"-b", "1G"})), std::vector<std::uint64_t>{1u << 30});
  EXPECT_EQ(sizes_of(read_good({"-e", "4"})), std::vector<std::uint64_t>{4});
}

TEST(perf_options, sizes_stop_before_they_overflow) {
  EXPECT_EQ(sizes_of(read_good({"-b", "8", "-e", "100"})), (std::vector<std::uint64_t>{8, 16, 32, 64}));
  EXPECT_EQ(sizes_of(read_good({"-b", "1024G", "-e", "1024G"})).size(), 1u);
  EXPECT_EQ(sizes_of(read_good({"-b", "10", "-e", "25", "-i", "10"})), (std::vector<std::uint64_t>{10, 20}));
}

TEST(perf_options, refusals_name_the_flag_and_what_is_allowed) {
  EXPECT_TRUE(contains(error_of({"-b", "0"}), "--minbytes: \"0\" is not a size from 1 to 1024G"));
  EXPECT_TRUE(contains(error_of({"-e", "4KB"}), "--maxbytes: \"4KB\" is not a size"));
  EXPECT_TRUE(contains(error_of({"-b", "-1"}), "--minbytes"));
  EXPECT_TRUE(contains(error_of({"-b", "2K", "-e", "1K"}), "--minbytes 2048 is more than --maxbytes 1024"));
  EXPECT_TRUE(contains(error_of({"-n", "0"}), "--iters: \"0\" is not a whole number from 1 to"));
  EXPECT_TRUE(contains(error_of({"-n", "1e3"}), "--iters"));
  EXPECT_TRUE(contains(error_of({"-f", "1"}), "--stepfactor 1 never reaches"));
  EXPECT_TRUE(contains(error_of({"-f", "2", "-i", "8"}), "give one of them"));
  EXPECT_TRUE(contains(error_of({"-i", "1"}), "makes more than"));
  EXPECT_TRUE(contains(error_of({"-d", "complex"}), "--datatype: \"complex\" is not one of int8, uint8"));
  EXPECT_TRUE(contains(error_of({"-d", ""}), "--datatype"));
  EXPECT_TRUE(contains(error_of({"-o", "plus"}), "--op: \"plus\" is not one of sum, prod"));
  EXPECT_TRUE(contains(error_of({"-o", "xor"}), "--op xor needs integers, which --datatype float is not"));
  EXPECT_TRUE(contains(error_of({"--memory", "disk"}), "host, device or auto"));
  EXPECT_TRUE(contains(error_of({"--compare", "--memory", "device"}), "--compare measures host memory"));
  EXPECT_TRUE(contains(error_of({"--compare", "-t", "2"}), "--compare measures one rank per process"));
  EXPECT_TRUE(contains(error_of({"--rewrite", "--memory", "device"}), "--rewrite is for host memory"));
  EXPECT_TRUE(contains(error_of({"--rewrite", "-m", "2"}), "--rewrite times single calls"));
  EXPECT_TRUE(contains(error_of({"-r", "first"}), "--root: \"first\" is not a rank, or all"));
  EXPECT_TRUE(contains(error_of({"-g", "0"}), "--ngpus: \"0\" is not a whole number from 1 to 256"));
  EXPECT_TRUE(contains(error_of({"-G", "1", "--memory", "host"}), "--cudagraph needs device memory"));
  EXPECT_TRUE(contains(error_of({"--nonsense", "8"}), "\"--nonsense\" is not an option here"));
  EXPECT_TRUE(contains(error_of({"-n", "3", "nonsense"}), "\"nonsense\" is not expected here"));
  perf_options out;
  EXPECT_EQ(read({}, out).exit_code, exit_usage);
  const command_line_outcome outcome = read({"alltoall"}, out);
  EXPECT_EQ(outcome.exit_code, exit_usage);
  EXPECT_TRUE(contains(outcome.error, "\"alltoall\" is nothing that can be measured; there is allreduce"));
}

TEST(perf_options, help_and_version) {
  perf_options out;
  command_line_outcome outcome = read({"--version"}, out);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.output, "xylem-perf 1.2.3\n");
  outcome = read({"allreduce", "--help"}, out);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(contains(outcome.output, "--minbytes")) << outcome.output;
  EXPECT_EQ(outcome.error, "");
  EXPECT_TRUE(contains(read({"--help"}, out).output, "allreduce"));
}

}  // namespace
}  // namespace xyl
