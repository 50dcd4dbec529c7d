// SPDX-License-Identifier: BSD-3-Clause
// Graphviz as a consumer of what the tool writes: its program `dot`, found on PATH, draws to standard output.
#pragma once

#include <string>

#include "base/result.hpp"

namespace xyl {

// program: "dot", or another for tests. Errors say what is missing and how to get along without it.
[[nodiscard]] result draw_svg(const std::string& dot_text, const char* program);

}  // namespace xyl
