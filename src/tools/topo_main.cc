// SPDX-License-Identifier: BSD-3-Clause
// xylem-topo: reads the machine or a file, prints it. Exit codes: 0; 1, a file or the machine could not be read or
// written; 2, the command line or the environment is wrong. A sentence on standard error says why.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "base/parameters.hpp"
#include "tools/topo_graphviz.hpp"
#include "tools/topo_options.hpp"
#include "tools/topo_plan.hpp"
#include "tools/topo_probe.hpp"
#include "tools/topo_text.hpp"
#include "topo/advice.hpp"
#include "topo/export.hpp"
#include "topo/machine.hpp"
#include "topo/override.hpp"

extern char** environ;

namespace xyl {
namespace {

constexpr int exit_failure = 1, exit_usage = 2;

int leave(int code, const std::string& why) {
  std::fprintf(stderr, "xylem-topo: %s\n", why.c_str());
  return code;
}

bool mps_runs() {
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return access((std::string(folder ? folder : "/tmp/nvidia-mps") + "/control").c_str(), F_OK) == 0;
}

result write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  return file ? result() : system_error("cannot write %s", path.c_str());
}

std::vector<topo::finding> findings_of(const topo::machine_view& machine, const topo::probe_report* probed,
                                       bool live) {
  std::vector<topo::finding> found = topo::find_advice(
      machine.g, {.nvml = machine.nvml, .mps_running = mps_runs(), .live = live, .privileged = geteuid() == 0});
  if (probed != nullptr)
    for (topo::finding& f : topo::find_probed_advice(*probed, machine.g)) found.push_back(std::move(f));
  std::stable_sort(found.begin(), found.end(),
                   [](const topo::finding& a, const topo::finding& b) { return a.how_much < b.how_much; });
  return found;
}

// probed: null without a probe.
result print(const topo_options& options, const topo::machine_view& machine, const topo::probe_report* probed,
             bool live) {
  const auto put = [](const std::string& text) { std::fputs(text.c_str(), stdout); };
  switch (options.format) {
    case topo_format::json:
      put(topo::export_json(machine.g));
      break;
    case topo_format::dot:
      put(topo_dot(machine.g));
      break;
    case topo_format::svg:
      std::fflush(stdout);
      XYL_TRY(draw_svg(topo_dot(machine.g), "dot"));
      break;
    case topo_format::text:
      if (probed != nullptr) put(topo_probe_text(*probed, machine.g) + "\n");
      if (options.advise) {
        put(topo_advice(findings_of(machine, probed, live)));
        break;
      }
      put(topo_tree(machine.g) + "\n" + topo_matrix(machine.g));
      put(topo_rates(machine.g));
      put(topo_notes(machine.g));
      if (!machine.nvml_problem.empty()) put("Note: the driver was not asked: " + machine.nvml_problem + ".\n");
      put(topo_hint(findings_of(machine, probed, live)));
      break;
  }
  if (std::fflush(stdout) != 0) return system_error("cannot write to standard output");
  return {};
}

// Into memory first: a plan that fails prints nothing.
result print_plans(const topo_options& options, const parameters& environment, const topo::graph& g) {
  topo_plan_options plans = options.plans;
  plans.plan_file = environment.plan_file;
  plans.deterministic = environment.deterministic;
  if (environment.forced_algorithm) plans.forced = topo::method_of(*environment.forced_algorithm);
  std::ostringstream out;
  if (options.curve)
    XYL_TRY(options.format == topo_format::svg ? plot_curve(g, plans, out) : print_curve(g, plans, out));
  else if (plans.nodes > 1)
    XYL_TRY(print_cluster(g, plans, out));
  else
    XYL_TRY(options.format == topo_format::json ? print_plan_json(g, plans, out) : print_plan(g, plans, out));
  if (std::fputs(out.str().c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return system_error("cannot write to standard output");
  return {};
}

int run(int argc, char** argv) {
  topo_options options;
  if (const result r = parse_topo_options(argc, argv, options); !r.ok()) return leave(exit_usage, r.text());
  if (!options.help.empty())
    return std::fputs(options.help.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? exit_failure : 0;
  parameters environment;
  if (const result r = read_parameters(environ, environment); !r.ok()) return leave(exit_usage, r.text());

  topo::machine_sources sources;
  // A file named here is looked at for itself; one that the environment names stands for this machine, as at run
  // time.
  sources.live = options.file.empty() || options.live;
  sources.file = options.file.empty() ? environment.topology_file : options.file;
  const std::string override_file =
      options.override_file.empty() ? environment.topology_override : options.override_file;
  topo::machine_view machine;
  if (const result r = topo::read_machine(sources, machine); !r.ok()) return leave(exit_failure, r.text());
  // The user's word comes after what was measured.
  topo::probe_report probed;
  if (options.probe) {
    if (const result r = probe_machine(environment, machine.g, probed); !r.ok())
      return leave(exit_failure, r.text());
    topo::add_probe(probed, machine.g);
  }
  if (!override_file.empty())
    if (const result r = topo::apply_override_file(override_file.c_str(), machine.g); !r.ok())
      return leave(exit_failure, r.text());
  if (!options.export_file.empty())
    if (const result r = write_file(options.export_file, topo::export_json(machine.g)); !r.ok())
      return leave(exit_failure, r.text());
  const result printed = options.plan ? print_plans(options, environment, machine.g)
                                      : print(options, machine, options.probe ? &probed : nullptr, sources.live);
  if (!printed.ok()) return leave(printed.code() == xylInvalidUsage ? exit_usage : exit_failure, printed.text());
  return 0;
}

}  // namespace
}  // namespace xyl

int main(int argc, char** argv) { return xyl::run(argc, argv); }
