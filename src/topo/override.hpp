// SPDX-License-Identifier: BSD-3-Clause
// What a user knows better: a JSON file whose numbers replace everything else in the graph (figure_merge.hpp). A
// device is named by its PCI address, its UUID or the name that xylem-topo prints; "*" is every GPU. Example:
//
//   {"edges":  [{"between": ["0000:15:00.0", "GPU 0"], "write": 53.6, "read": 51.1, "latency": 0.7}],
//    "pairs":  [{"from": "GPU 0", "to": "*", "peer_to_peer": false},
//               {"from": "GPU 0", "to": "GPU 1", "write": 50, "read": 48, "flag_latency": 0.68}],
//    "groups": [{"name": "left chip", "total": 100, "edges": [["root complex 0000:10", "root port
//    0000:10:01.1"]]}], "write_collapse": 0.05}
//
// GB/s and microseconds. "between" is both directions of a link, "from" and "to" one of them; a group counts the
// direction it names. Whatever does not fit the graph or is not known is an error that says where.
#pragma once

#include <string_view>

#include "base/result.hpp"
#include "topo/graph.hpp"

namespace xyl::topo {

// On failure the graph is as it was.
[[nodiscard]] result apply_override(std::string_view text, graph& g);
[[nodiscard]] result apply_override_file(const char* path, graph& g);

// By PCI address (with or without domain), UUID or name; no_vertex if there is none or the name is not unique.
[[nodiscard]] vertex_id find_vertex(const graph& g, std::string_view name);

// The figures of an ordered pair, made if there are none yet.
pair_figure& pair_of(graph& g, vertex_id from, vertex_id to);

}  // namespace xyl::topo
