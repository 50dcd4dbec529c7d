// SPDX-License-Identifier: BSD-3-Clause
//
// CLI11 splits the line and prints the help.
#include "tools/perf_options.hpp"

#include <algorithm>
#include <sstream>

#include "tools/perf_flags.hpp"

namespace xyl {
namespace {

contradiction add_flags(subcommand_kind kind, CLI::App& app, perf_options& out) {
  if (kind == subcommand_kind::decode) return add_decode_flags(app, out);
  if (kind == subcommand_kind::fused) return add_fused_flags(app, out);
  return add_sweep_flags(app, out);
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
  app.require_subcommand(0, 1);
  app.add_flag("--describe", out.describe,
               "Print how the ranks would communicate (JSON: machine, links, plan, algorithms by size); without\n"
               "anything to measure, print that alone");
  std::vector<std::pair<CLI::App*, contradiction>> added;
  for (const subcommand& s : subcommands) {
    CLI::App* sub = app.add_subcommand(s.name, s.help);
    added.emplace_back(sub, add_flags(s.kind, *sub, out));
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
    refuse("\"" + std::string(argv[1]) + "\" is nothing that can be measured; there is " + names);
    return outcome;
  }
  try {
    app.parse(argc, argv);
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
  if (app.get_subcommands().empty() && !out.describe) refuse("measure what? There is " + names);
  for (const auto& [sub, find_contradiction] : added) {
    if (!sub->parsed()) continue;
    out.collective = sub->get_name();
    if (const std::string why = find_contradiction(); !why.empty()) refuse(why);
  }
  return outcome;
}

}  // namespace xyl
