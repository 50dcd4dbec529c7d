// SPDX-License-Identifier: BSD-3-Clause
// The whole graph as JSON, and back. The text depends on nothing but the graph, and reading it gives an equal
// graph, so that export, import and export again is the same bytes: a machine can be sent by mail.
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "topo/graph.hpp"

namespace xyl::topo {

[[nodiscard]] std::string export_json(const graph& g);

// Checks everything that the rest of the library relies on: ends of edges, pairs of directions, finite numbers.
[[nodiscard]] result import_json(std::string_view text, graph& out);

// As they are written there and shown to people.
[[nodiscard]] const char* name_of(vertex_kind kind);
[[nodiscard]] const char* name_of(edge_kind kind);
[[nodiscard]] const char* name_of(source from);
[[nodiscard]] const char* name_of(confidence trust);

}  // namespace xyl::topo
