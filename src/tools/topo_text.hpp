// SPDX-License-Identifier: BSD-3-Clause
// The machine for people: a tree of what hangs on what, the NVLinks, the matrix of classes as `nvidia-smi topo -m`
// prints it, the notes, and the advice. And for Graphviz.
#pragma once

#include <string>
#include <vector>

#include "topo/advice.hpp"
#include "topo/graph.hpp"

namespace xyl {

[[nodiscard]] std::string topo_tree(const topo::graph& g);
[[nodiscard]] std::string topo_matrix(const topo::graph& g);
// What data gets between GPUs, where somebody measured or told it of any pair; else "".
[[nodiscard]] std::string topo_rates(const topo::graph& g);
[[nodiscard]] std::string topo_notes(const topo::graph& g);
[[nodiscard]] std::string topo_advice(const std::vector<topo::finding>& found);
// The titles of findings in a line, for who did not ask for advice; "" if there is nothing to say.
[[nodiscard]] std::string topo_hint(const std::vector<topo::finding>& found);
[[nodiscard]] std::string topo_dot(const topo::graph& g);

// What hangs on what: the parent of each vertex, no_vertex for the outermost and for NVSwitches.
[[nodiscard]] std::vector<topo::vertex_id> tree_parents(const topo::graph& g);

// "63.0 GB/s", "~63.0 GB/s" if trusted little, "53.6 GB/s (measured)" or "(told)" by a user, "?" if unknown.
[[nodiscard]] std::string shown_capacity(const topo::figure& f);

}  // namespace xyl
