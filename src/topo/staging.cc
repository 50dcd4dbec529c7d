// SPDX-License-Identifier: BSD-3-Clause
// Local search from "near the receiver": move one receiver's buffer at a time while the slowest resource of
// all-to-all traffic between staged pairs gets faster. A few memories and at most some dozens of GPUs.
#include "topo/staging.hpp"

#include <algorithm>

#include "topo/loads.hpp"

namespace xyl::topo {
namespace {

void stage(const fabric& f, const path_finder& finder, std::uint16_t from, std::uint16_t to, vertex_id memory,
           route& r) {
  const path p = finder.find_staged(f.gpus[from], memory, f.gpus[to]);
  r.edges = p.edges;
  r.written = 0;
  r.memory = p.edges.empty() ? no_vertex : memory;
  r.target = no_vertex;
  for (std::uint32_t e : p.edges) {
    ++r.written;
    const vertex_id at = f.machine->edges[e].to;
    if (f.machine->vertices[at].kind == vertex_kind::root_complex) r.target = at;
    if (at == memory) break;
  }
}

// Every staged pair sends one unit.
double slowest(const fabric& f) {
  load_table loads(f);
  for (std::uint16_t a = 0; a < f.gpus.size(); ++a)
    for (std::uint16_t b = 0; b < f.gpus.size(); ++b)
      if (a != b && f.between(a, b).staged()) loads.add(f, a, b, 1, direction::push);
  return loads.time_per_byte(f, false);
}

void move(fabric& f, const path_finder& finder, std::uint16_t to, vertex_id memory) {
  for (std::uint16_t from = 0; from < f.gpus.size(); ++from) {
    route& r = f.routes[std::size_t{from} * f.gpus.size() + to];
    if (from != to && r.staged()) stage(f, finder, from, to, memory, r);
  }
}

}  // namespace

void choose_bounce_memory(fabric& f, const path_finder& finder) {
  const graph& g = *f.machine;
  const auto count = static_cast<std::uint16_t>(f.gpus.size());
  std::vector<vertex_id> memories;
  for (vertex_id v = 0; v < g.vertices.size(); ++v)
    if (g.vertices[v].kind == vertex_kind::host_memory) memories.push_back(v);
  // By the number that the operating system gives, so that the vertices' own order does not matter.
  std::stable_sort(memories.begin(), memories.end(),
                   [&](vertex_id a, vertex_id b) { return g.vertices[a].os_index < g.vertices[b].os_index; });

  std::vector<vertex_id> memory(count, no_vertex);
  for (std::uint16_t to = 0; to < count; ++to) {
    memory[to] = finder.nearest_memory(f.gpus[to]);
    move(f, finder, to, memory[to]);
  }
  if (memories.size() < 2) return;
  double best = slowest(f);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint16_t to = 0; to < count; ++to)
      for (vertex_id candidate : memories) {
        if (candidate == memory[to]) continue;
        move(f, finder, to, candidate);
        const bool reached = std::all_of(f.routes.begin(), f.routes.end(),
                                         [&](const route& r) { return !r.staged() || r.memory != no_vertex; });
        const double time = slowest(f);
        // A gain below a thousandth is not worth being far from the receiver.
        if (reached && time < best * 0.999) {
          best = time;
          memory[to] = candidate;
          moved = true;
        } else {
          move(f, finder, to, memory[to]);
        }
      }
  }
}

}  // namespace xyl::topo
