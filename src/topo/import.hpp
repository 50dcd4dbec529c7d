// SPDX-License-Identifier: BSD-3-Clause
// A machine from a file, whatever wrote it: hwloc 2 (XML), NCCL or RCCL (XML), xylem-topo --export (JSON). Files
// are hostile input: bounded in size, depth and time, and errors name the file and the line.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "topo/graph.hpp"

namespace xyl::topo {

[[nodiscard]] result import_file(const char* path, graph& out);

// The same of a text that is in memory already.
[[nodiscard]] result import_text(std::string_view text, graph& out);

}  // namespace xyl::topo
