// SPDX-License-Identifier: BSD-3-Clause
// CLI11 does the parsing; its exceptions end here.
#include "tools/topo_options.hpp"

#include <CLI/CLI.hpp>
#include <map>
#include <utility>

#include "config.h"

namespace xyl {

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
  const std::map<std::string, topo_format> formats = {{"text", topo_format::text},
                                                      {"json", topo_format::json},
                                                      {"dot", topo_format::dot},
                                                      {"svg", topo_format::svg}};
  CLI::Option* format =
      app.add_option("--format", read.format, "text, json, dot or svg (default text; svg needs Graphviz)")
          ->transform(CLI::CheckedTransformer(formats, CLI::ignore_case).description(""))
          ->type_name("FORMAT");
  app.add_option("--export", read.export_file, "Also write the machine to this file, for --file elsewhere")
      ->type_name("FILE");
  app.add_flag("--advise", read.advise, "List what is wrong with the machine, and what would change it")
      ->excludes(format);
  live->needs("--file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    read.help = app.help();
  } catch (const CLI::CallForVersion& version) {
    read.help = std::string(version.what()) + "\n";
  } catch (const CLI::Error& failure) {
    return error(xylInvalidArgument, "%s (xylem-topo --help lists the options)", failure.what());
  }
  out = std::move(read);
  return {};
}

}  // namespace xyl
