// SPDX-License-Identifier: BSD-3-Clause
// CLI11 does the parsing; its exceptions end here.
#include "tools/topo_options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "base/parse.hpp"
#include "config.h"

namespace xyl {
namespace {

// One of some words, in whatever case; what CLI11 would say of others is not a sentence.
template <typename Value>
CLI::Option* add_word(CLI::App& app, const std::string& name, Value& out,
                      const std::vector<std::pair<std::string, Value>>& words, const std::string& help) {
  return app.add_option_function<std::string>(
      name,
      [&out, name, words](const std::string& text) {
        std::string all;
        for (std::size_t i = 0; i < words.size(); ++i) {
          if (equal_ignoring_case(text, words[i].first)) {
            out = words[i].second;
            return;
          }
          all += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i].first;
        }
        throw CLI::ValidationError(name, all + " is expected, not \"" + text + "\"");
      },
      help);
}

void store_size(const std::string& text, std::uint64_t& out) {
  const std::optional<std::uint64_t> bytes = parse_size(text);
  if (!bytes) throw CLI::ValidationError("--plan", "bytes are expected, with an optional suffix K, M or G");
  out = *bytes;
}

// "50,3": GB/s of a node each way, and us from node to node.
void store_network(const std::string& text, topo::network& out) {
  char* end = nullptr;
  out.capacity = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end == ',') {
    const char* second = end + 1;
    out.us = std::strtod(second, &end);
    if (end != second && *end == '\0' && out.capacity > 0 && out.us >= 0 && std::isfinite(out.capacity + out.us))
      return;
  }
  throw CLI::ValidationError("--network", "GB/s and us are expected, like 50,3");
}

void add_plan_options(CLI::App& app, topo_options& read) {
  const std::string group = "Plans";
  CLI::Option* plan = app.add_option_function<std::string>(
      "--plan",
      [&read](const std::string& text) {
        store_size(text, read.plans.bytes);
        read.plan = true;
      },
      "Instead of the machine, print the plan for messages of this size (json: of all sizes and collectives)");
  CLI::Option* curve = app.add_flag_callback(
      "--curve", [&read] { read.plan = read.curve = true; },
      "Predicted time and bandwidth from 1K to 1G as CSV, or with --format svg as a picture (gnuplot)");
  CLI::Option* nodes = app.add_option_function<unsigned>(
                              "--nodes",
                              [&read](unsigned count) {
                                read.plans.nodes = count;
                                read.plan = true;
                              },
                              "Plan a cluster of so many such machines")
                           ->check(CLI::Range(1u, topo::most_nodes).description(""));
  plan->type_name("BYTES")->group(group);
  curve->group(group)->excludes(plan);
  nodes->type_name("M")->group(group);
  app.add_option_function<std::string>(
         "--network", [&read](const std::string& text) { store_network(text, read.plans.between); },
         "With --nodes: GB/s of a node each way, and us from node to node (default 50,3)")
      ->type_name("GB/s,us")
      ->group(group)
      ->needs(nodes);
  app.add_option("--ranks", read.plans.ranks, "Ranks (default: one on each GPU)")
      ->type_name("N")
      ->group(group)
      ->check(CLI::Range(1u, 256u).description(""));
  std::vector<std::pair<std::string, topo::pattern>> collectives;
  for (int i = 0; i < topo::patterns; ++i)
    collectives.emplace_back(name_of(static_cast<topo::pattern>(i)), static_cast<topo::pattern>(i));
  add_word(app, "--collective", read.plans.what, collectives,
           "allreduce, allgather, reducescatter, broadcast or alltoall (default allreduce)")
      ->type_name("C")
      ->group(group);
}

// What does not go together.
std::string misfit(const topo_options& o, bool has_ranks_or_collective) {
  if (!o.plan && has_ranks_or_collective) return "--ranks and --collective go with --plan, --curve or --nodes";
  if (o.plan && o.advise) return "--advise goes with neither --plan nor --curve nor --nodes";
  if (!o.plan) return "";
  const bool text = o.format == topo_format::text;
  if (o.curve && !text && o.format != topo_format::svg) return "--curve is printed as text (CSV) or svg";
  if (!o.curve && o.plans.nodes > 1 && !text) return "--nodes is printed as text, or with --curve as svg";
  if (!o.curve && !text && o.format != topo_format::json) return "--plan is printed as text or json";
  return "";
}

}  // namespace

result parse_topo_options(int argc, const char* const* argv, topo_options& out) {
  topo_options read;
  CLI::App app{
      "How the GPUs of a machine are linked: a tree and a matrix, from the machine itself or from a file."};
  app.name("xylem-topo");
  app.set_version_flag("--version", "xylem-topo " PACKAGE_VERSION);
  app.add_option("--file", read.file,
                 "Read this instead of the machine: XML of hwloc 2 or NCCL, or JSON of --export")
      ->type_name("FILE");
  app.add_option("--override", read.override_file, "Capacities and vetoes that replace what was found (JSON)")
      ->type_name("FILE");
  CLI::Option* live = app.add_flag("--live", read.live, "With --file: fill what it leaves out from this machine");
  CLI::Option* format = add_word<topo_format>(app, "--format", read.format,
                                              {{"text", topo_format::text},
                                               {"json", topo_format::json},
                                               {"dot", topo_format::dot},
                                               {"svg", topo_format::svg}},
                                              "text, json, dot or svg (default text; svg needs Graphviz)");
  format->type_name("FORMAT");
  app.add_option("--export", read.export_file, "Also write the machine to this file, for --file elsewhere")
      ->type_name("FILE");
  app.add_flag("--advise", read.advise, "List what is wrong with the machine, and what would change it")
      ->excludes(format);
  CLI::Option* probe =
      app.add_flag("--probe", read.probe, "Prove and measure the links between this machine's GPUs first");
  probe->excludes("--file");
  live->needs("--file");
  add_plan_options(app, read);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    read.help = app.help();
  } catch (const CLI::CallForVersion& version) {
    read.help = std::string(version.what()) + "\n";
  } catch (const CLI::Error& failure) {
    return error(xylInvalidArgument, "%s (xylem-topo --help lists the options)", failure.what());
  }
  const bool shaped = app.count("--ranks") + app.count("--collective") > 0;
  if (const std::string why = misfit(read, shaped); !why.empty() && read.help.empty())
    return error(xylInvalidArgument, "%s (xylem-topo --help lists the options)", why.c_str());
  out = std::move(read);
  return {};
}

}  // namespace xyl
