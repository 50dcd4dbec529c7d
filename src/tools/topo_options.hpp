// SPDX-License-Identifier: BSD-3-Clause
// The command line of xylem-topo. Parsing has no side effects, so that it is tested without a process.
#pragma once

#include <string>

#include "base/result.hpp"
#include "tools/topo_plan.hpp"

namespace xyl {

enum class topo_format { text, json, dot, svg };

struct topo_options {
  std::string file;           // empty: XYLEM_TOPO_FILE, else this machine
  std::string override_file;  // empty: XYLEM_TOPO_OVERRIDE, else none
  bool live = false;          // with a file: fill what it leaves out from this machine
  topo_format format = topo_format::text;
  std::string export_file;  // empty: none
  bool advise = false;
  bool probe = false;
  bool plan = false;  // --plan, --curve or --nodes: plans are printed instead of the machine
  bool curve = false;
  topo_plan_options plans;  // of the command line alone; the environment's part is the caller's
  std::string help;         // what --help or --version print; nothing else is to be done then
};

// xylInvalidArgument: the text says what is wrong and what is allowed.
[[nodiscard]] result parse_topo_options(int argc, const char* const* argv, topo_options& out);

}  // namespace xyl
