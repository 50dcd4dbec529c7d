// SPDX-License-Identifier: BSD-3-Clause
//
// CLI11 splits the line and prints the help; values are judged here, so that all of them are refused alike.
#include "tools/perf_options.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <functional>
#include <sstream>

#include "base/parse.hpp"
#include "base/result.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr std::uint64_t largest_message = 1ull << 40;
constexpr std::uint64_t most_sizes = 100'000;

// CLI11 first asks the validator for a complaint ("" = none), then hands the text to the reader.
using reader = std::function<bool(const std::string& text)>;
CLI::Option* add(CLI::App& app, const char* flags, const char* help, std::string allowed, const char* shape,
                 reader read) {
  return app
      .add_option_function<std::string>(
          flags, [](const std::string&) {}, help)
      ->type_name(shape)
      ->check(CLI::Validator(
          [read = std::move(read), allowed = std::move(allowed)](std::string& text) {
            return read(text) ? std::string() : "\"" + text + "\" is not " + allowed;
          },
          ""));
}

CLI::Option* add_count(CLI::App& app, const char* flags, const char* help, int least, int most, int& out) {
  return add(
      app, flags, help, format_text("a whole number from %d to %d", least, most), "NUMBER",
      [=, &out](const std::string& text) {
        const std::optional<std::uint64_t> value = parse_count(text);
        if (!value || *value < static_cast<std::uint64_t>(least) || *value > static_cast<std::uint64_t>(most))
          return false;
        out = static_cast<int>(*value);
        return true;
      });
}

CLI::Option* add_size(CLI::App& app, const char* flags, const char* help, std::uint64_t& out) {
  return add(app, flags, help, "a size from 1 to 1024G (bytes, with an optional suffix K, M or G)", "SIZE",
             [&out](const std::string& text) {
               const std::optional<std::uint64_t> value = parse_size(text);
               if (!value || *value < 1 || *value > largest_message) return false;
               out = *value;
               return true;
             });
}

// A name or `all`.
template <class Value, class Table>
CLI::Option* add_names(CLI::App& app, const char* flags, const char* help, const std::string& names,
                       const char* shape, Value Table::value_type::*member, const Table& table,
                       std::optional<Value> (*named)(std::string_view), std::vector<Value>& out) {
  return add(app, flags, help, "one of " + names + ", or all", shape,
             [member, table, named, &out](const std::string& text) {
               if (equal_ignoring_case(text, "all")) {
                 out.clear();
                 for (const auto& row : table) out.push_back(row.*member);
                 return true;
               }
               const std::optional<Value> value = named(text);
               if (value) out = {*value};
               return value.has_value();
             });
}

struct seen_flags {
  CLI::Option *least, *most, *factor, *step, *graph;
};

seen_flags add_flags(CLI::App& app, perf_options& out) {
  seen_flags seen{};
  seen.least = add_size(app, "-b,--minbytes", "Smallest message (default 8)", out.least_bytes);
  seen.most = add_size(app, "-e,--maxbytes", "Largest message (default 16M)", out.most_bytes);
  seen.factor =
      add(app, "-f,--stepfactor", "Multiply the size by this from line to line (default 2)",
          "a whole number from 1 to 1048576 (1: use --stepbytes)", "NUMBER", [&out](const std::string& text) {
            const std::optional<std::uint64_t> value = parse_count(text);
            if (!value || *value < 1 || *value > 1u << 20) return false;
            out.step_factor = *value;
            return true;
          });
  seen.step = add_size(app, "-i,--stepbytes", "Add this to the size from line to line instead", out.step_bytes);
  add_count(app, "-n,--iters", "Calls between two clock readings (default: enough for the clock)", 1, 1'000'000,
            out.iterations);
  add_count(app, "-w,--warmup_iters", "Calls before the first clock reading (default 5)", 0, 1'000'000,
            out.warmup_iterations);
  add_count(app, "-m,--agg_iters", "Calls that count as one iteration (default 1)", 1, 10'000,
            out.aggregated_calls);
  add(app, "-r,--root", "Root of the collectives that have one, or all (default 0)", "a rank, or all", "RANK",
      [&out](const std::string& text) {
        if (equal_ignoring_case(text, "all")) {
          out.root = all_roots;
          return true;
        }
        const std::optional<std::uint64_t> value = parse_count(text);
        if (!value || *value > 1'000'000) return false;
        out.root = static_cast<int>(*value);
        return true;
      });
  add_count(app, "-t,--nthreads", "Threads of each process (default 1)", 1, 256, out.threads);
  add_count(app, "-g,--ngpus", "Ranks that each thread drives (default 1)", 1, 256, out.ranks_per_thread);
  add_count(app, "--repetitions", "Measurements per line, of which the median is shown (default 5)", 1, 10'000,
            out.repetitions);
  seen.graph =
      add_count(app, "-G,--cudagraph", "Capture the calls in a CUDA graph and launch it this often (default 0)", 0,
                1'000'000, out.graph_launches);
  add_count(app, "-c,--check", "Checked calls per line and placement, 0 for none (default 1)", 0, 1000, out.checks);
  add_names(app, "-d,--datatype", "Element type, or all (default float)", type_list(), "TYPE", &type_info::type,
            all_types(), type_named, out.types);
  add_names(app, "-o,--op", "Reduction, or all (default sum); without a meaning where nothing is reduced",
            operation_list(), "OPERATION", &operation_info::operation, all_operations(), operation_named,
            out.operations);
  add(app, "--memory", "Where the buffers are: device if every rank has one, else host (default auto)",
      "host, device or auto", "KIND", [&out](const std::string& text) {
        if (equal_ignoring_case(text, "host"))
          out.memory = memory_choice::host;
        else if (equal_ignoring_case(text, "device"))
          out.memory = memory_choice::device;
        else if (equal_ignoring_case(text, "auto"))
          out.memory = memory_choice::automatic;
        else
          return false;
        return true;
      });
  app.add_flag("--compare", out.compare,
               "Measure the same call of the MPI library as well, in turn, on host memory; show time and ratio");
  app.add_option("--json", out.json_file, "Write everything to this file as JSON")->type_name("FILE");
  app.add_option("--csv", out.csv_file, "Write the lines to this file as comma-separated values")
      ->type_name("FILE");
  return seen;
}

// What only shows when all flags are known; "" if nothing is wrong.
std::string contradiction(const seen_flags& seen, perf_options& out) {
  // One end alone moves the other.
  if (!seen.most->count()) out.most_bytes = std::max(out.most_bytes, out.least_bytes);
  if (!seen.least->count()) out.least_bytes = std::min(out.most_bytes, out.least_bytes);
  if (out.least_bytes > out.most_bytes)
    return format_text("--minbytes %llu is more than --maxbytes %llu",
                       static_cast<unsigned long long>(out.least_bytes),
                       static_cast<unsigned long long>(out.most_bytes));
  if (seen.factor->count() && out.step_factor > 1 && seen.step->count())
    return "--stepfactor multiplies and --stepbytes adds; give one of them";
  if (seen.step->count()) out.step_factor = 1;
  if (out.step_factor == 1 && !seen.step->count() && out.least_bytes < out.most_bytes)
    return "--stepfactor 1 never reaches --maxbytes; give --stepbytes as well";
  if (out.step_factor == 1 && out.least_bytes < out.most_bytes &&
      (out.most_bytes - out.least_bytes) / out.step_bytes >= most_sizes)
    return format_text("--stepbytes %llu makes more than %llu sizes",
                       static_cast<unsigned long long>(out.step_bytes),
                       static_cast<unsigned long long>(most_sizes));
  if (out.compare && out.memory == memory_choice::device)
    return "--compare measures host memory; leave --memory out, or say --memory host";
  if (out.compare) out.memory = memory_choice::host;
  if (out.compare && out.threads * out.ranks_per_thread > 1)
    return "--compare measures one rank per process, as MPI has them; leave --nthreads and --ngpus out";
  if (out.graph_launches > 0 && out.memory == memory_choice::host)
    return "--cudagraph needs device memory; leave it out on host memory";
  for (xylDataType_t type : out.types)
    for (xylRedOp_t operation : out.operations)
      if (go_together(info_of(type), info_of(operation))) return "";
  return format_text("--op %s needs integers, which --datatype %s is not", info_of(out.operations.front()).name,
                     info_of(out.types.front()).name);
}

}  // namespace

command_line_outcome read_command_line(int argc, const char* const* argv, std::span<const subcommand> subcommands,
                                       const std::string& version, perf_options& out) {
  out = {};
  CLI::App app(
      "Latency and bandwidth of Xylem's collectives, with checked results. Start it with mpirun or srun,\n"
      "one process per rank: mpirun -np 4 xylem-perf allreduce -b 8 -e 16M",
      "xylem-perf");
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, seen_flags>> added;
  for (const subcommand& s : subcommands) {
    CLI::App* sub = app.add_subcommand(s.name, s.help);
    added.emplace_back(sub, add_flags(*sub, out));
  }
  command_line_outcome outcome;
  const auto refuse = [&](const std::string& why) {
    outcome.exit_code = exit_usage;
    outcome.error = "xylem-perf: " + why + "\nxylem-perf --help and xylem-perf " +
                    (subcommands.empty() ? "" : subcommands.front().name) + " --help say what there is.\n";
  };
  std::string names;
  for (const subcommand& s : subcommands) names += (names.empty() ? "" : ", ") + std::string(s.name);
  // CLI11 would only say that a subcommand is missing.
  if (argc > 1 && argv[1][0] != '-' &&
      std::none_of(subcommands.begin(), subcommands.end(),
                   [&](const subcommand& s) { return std::string_view(argv[1]) == s.name; })) {
    refuse("\"" + std::string(argv[1]) + "\" is not a collective that can be measured; there is " + names);
    return outcome;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError&) {
    refuse("which collective? There is " + names);
    return outcome;
  } catch (const CLI::ExtrasError&) {
    // The first word that nothing wanted; CLI11 would list it after the words that follow it.
    const std::vector<std::string> unwanted = app.remaining(true);
    const std::string word = unwanted.empty() ? "" : unwanted.front();
    refuse("\"" + word + "\" is not " + (word.starts_with('-') ? "an option here" : "expected here"));
    return outcome;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
      refuse(e.what());
    } else {
      std::ostringstream text;
      std::ostringstream none;
      app.exit(e, text, none);
      outcome.exit_code = 0;
      outcome.output = text.str();
    }
    return outcome;
  }
  for (const auto& [sub, seen] : added) {
    if (!sub->parsed()) continue;
    out.collective = sub->get_name();
    if (const std::string why = contradiction(seen, out); !why.empty()) refuse(why);
  }
  return outcome;
}

std::vector<std::uint64_t> sizes_of(const perf_options& options) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t size = options.least_bytes;
  while (true) {
    sizes.push_back(size);
    if (options.step_factor > 1) {
      if (size > options.most_bytes / options.step_factor) break;
      size *= options.step_factor;
    } else {
      if (options.step_bytes == 0 || options.most_bytes - size < options.step_bytes) break;
      size += options.step_bytes;
    }
  }
  return sizes;
}

}  // namespace xyl
