// SPDX-License-Identifier: BSD-3-Clause
// Breadth-first search over the few hundred vertices of one machine. NVLink is searched first and by itself,
// because traffic between two GPUs never mixes it with PCIe; the rest is a tree below the sockets, so that
// "shortest, then widest" decides only between ways across sockets.
#include "topo/paths.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

namespace xyl::topo {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr std::uint32_t no_edge = std::numeric_limits<std::uint32_t>::max();

double limit_of(const figure& f) { return f.known() ? f.value : unlimited; }

// Peers and NICs end a way; data that passes through a host memory is staged, which is asked for by name.
bool passes_on(vertex_kind kind) {
  return kind != vertex_kind::gpu && kind != vertex_kind::nic && kind != vertex_kind::host_memory;
}

class narrowest {
 public:
  void add(const figure& f) {
    if (!f.known()) {
      gap_ = true;
    } else if (!least_.known() || f.value < least_.value) {
      least_ = f;
    }
  }
  [[nodiscard]] figure value() const {
    figure f = least_;
    if (gap_ && f.known() && f.from != source::user) f.trust = std::min(f.trust, confidence::low);
    return f;
  }

 private:
  figure least_;
  bool gap_ = false;
};

// A group's total is shared by every crossing of its edges, so a way that crosses two of them gets half.
void limit_by_groups(const graph& g, const std::vector<std::uint32_t>& edges, narrowest& write, narrowest& read) {
  for (const capacity_group& group : g.groups) {
    if (!group.total.known()) continue;
    std::size_t crossed = 0;
    for (std::uint32_t e : group.edges) crossed += std::count(edges.begin(), edges.end(), e);
    if (crossed == 0) continue;
    figure share = group.total;
    share.value /= static_cast<double>(crossed);
    write.add(share);
    read.add(share);
  }
}

figure latency_of(const graph& g, const std::vector<std::uint32_t>& edges) {
  figure sum;
  for (std::uint32_t e : edges) {
    const figure& f = g.edges[e].latency;
    if (!f.known()) return {};
    const bool first = !sum.known();
    sum.value += f.value;
    sum.from = first ? f.from : std::min(sum.from, f.from);
    sum.trust = first ? f.trust : std::min(sum.trust, f.trust);
  }
  return sum;
}

path_class class_of(const graph& g, const std::vector<std::uint32_t>& edges) {
  unsigned switches = 0, root_complexes = 0, numa_nodes = 0, sockets = 0;
  for (std::uint32_t e : edges) {
    const vertex_kind kind = g.vertices[g.edges[e].to].kind;
    switches += kind == vertex_kind::pci_switch;
    root_complexes += kind == vertex_kind::root_complex;
    numa_nodes += kind == vertex_kind::numa_node;
    sockets += kind == vertex_kind::socket;
  }
  if (numa_nodes > 1 || sockets > 1) return path_class::sys;
  if (root_complexes > 1) return path_class::node;
  if (root_complexes == 1) return path_class::phb;
  return switches > 1 ? path_class::pxb : path_class::pix;
}

unsigned links_of(const graph& g, const std::vector<std::uint32_t>& edges) {
  unsigned least = std::numeric_limits<unsigned>::max();
  for (std::uint32_t e : edges) least = std::min(least, g.edges[e].links);
  return least;
}

// Fills what follows from the edges of a way that data crosses whole, once.
void measure(const graph& g, path& p) {
  narrowest write, read;
  for (std::uint32_t e : p.edges) {
    write.add(g.edges[e].write);
    read.add(g.edges[e].read);
  }
  limit_by_groups(g, p.edges, write, read);
  p.write = write.value();
  p.read = read.value();
  p.latency = latency_of(g, p.edges);
  p.hops = static_cast<unsigned>(p.edges.size());
}

const pair_figure* pair_of(const graph& g, vertex_id from, vertex_id to) {
  const auto at = std::find_if(g.pairs.begin(), g.pairs.end(),
                               [&](const pair_figure& p) { return p.from == from && p.to == to; });
  return at == g.pairs.end() ? nullptr : &*at;
}

}  // namespace

std::string name_of(const path& p) {
  constexpr const char* names[] = {"LOC", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "HOST"};
  std::string name = names[static_cast<std::size_t>(p.what)];
  return p.what == path_class::nv ? name + std::to_string(p.nvlinks) : name;
}

path_finder::path_finder(const graph& g)
    : graph_(g), first_(g.vertices.size() + 1, 0), outgoing_(g.edges.size(), no_edge) {
  for (const edge& e : g.edges) ++first_[e.from + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) outgoing_[next[g.edges[e].from]++] = e;
}

bool path_finder::route(vertex_id from, vertex_id to, over what, edge_list& edges) const {
  struct reached {
    std::uint32_t by = no_edge;
    std::uint32_t hops = std::numeric_limits<std::uint32_t>::max();
    double width = 0;
  };
  std::vector<reached> seen(graph_.vertices.size());
  std::vector<vertex_id> queue{from};
  seen[from] = {no_edge, 0, unlimited};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const vertex_id v = queue[next];
    if (seen[v].hops >= seen[to].hops) break;
    if (v != from && !passes_on(graph_.vertices[v].kind)) continue;
    for (std::uint32_t at = first_[v]; at < first_[v + 1]; ++at) {
      const edge& e = graph_.edges[outgoing_[at]];
      if ((e.kind == edge_kind::nvlink) != (what == over::nvlink)) continue;
      const double width = std::min(seen[v].width, std::min(limit_of(e.write), limit_of(e.read)));
      const std::uint32_t hops = seen[v].hops + 1;
      if (seen[e.to].hops < hops || (seen[e.to].hops == hops && seen[e.to].width >= width)) continue;
      if (seen[e.to].hops > hops) queue.push_back(e.to);
      seen[e.to] = {outgoing_[at], hops, width};
    }
  }
  if (seen[to].by == no_edge) return false;
  const std::size_t begin = edges.size();
  for (vertex_id v = to; v != from; v = graph_.edges[seen[v].by].from) edges.push_back(seen[v].by);
  std::reverse(edges.begin() + static_cast<std::ptrdiff_t>(begin), edges.end());
  return true;
}

path path_finder::find(vertex_id from, vertex_id to) const {
  path p;
  if (!knows(from) || !knows(to)) return p;
  const pair_figure* pair = pair_of(graph_, from, to);
  if (from != to && pair && pair->peer_to_peer && !*pair->peer_to_peer)
    return find_staged(from, nearest_memory(from), to);
  if (from == to || !route(from, to, over::nvlink, p.edges)) {
    p = find_without_nvlink(from, to);
  } else {
    p.what = path_class::nv;
    p.nvlinks = links_of(graph_, p.edges);
    measure(graph_, p);
  }
  if (pair && p.what != path_class::host) {
    if (pair->write.known()) p.write = pair->write;
    if (pair->read.known()) p.read = pair->read;
    if (pair->flag_latency.known()) p.latency = pair->flag_latency;
  }
  return p;
}

path path_finder::find_without_nvlink(vertex_id from, vertex_id to) const {
  path p;
  if (!knows(from) || !knows(to)) return p;
  if (from == to) {
    p.what = path_class::loc;
    return p;
  }
  if (!route(from, to, over::the_rest, p.edges)) return find_staged(from, nearest_memory(from), to);
  p.what = class_of(graph_, p.edges);
  measure(graph_, p);
  return p;
}

path path_finder::find_staged(vertex_id from, vertex_id memory, vertex_id to) const {
  path p;
  if (!knows(from) || !knows(memory) || !knows(to) || from == memory || memory == to) return p;
  if (!route(from, memory, over::the_rest, p.edges)) return p;
  const std::size_t half = p.edges.size();
  if (!route(memory, to, over::the_rest, p.edges)) {
    p.edges.clear();
    return p;
  }
  narrowest both;
  for (std::size_t i = 0; i < p.edges.size(); ++i)
    both.add(i < half ? graph_.edges[p.edges[i]].write : graph_.edges[p.edges[i]].read);
  limit_by_groups(graph_, p.edges, both, both);
  p.write = p.read = both.value();
  // Measured halves say more than the edges do.
  const pair_figure* in = pair_of(graph_, from, memory);
  const pair_figure* out = pair_of(graph_, memory, to);
  if (in && out && in->write.known() && out->read.known())
    p.write = p.read = in->write.value < out->read.value ? in->write : out->read;
  p.latency = latency_of(graph_, p.edges);
  p.hops = static_cast<unsigned>(p.edges.size());
  return p;
}

vertex_id path_finder::nearest_memory(vertex_id from) const {
  if (!knows(from)) return no_vertex;
  std::vector<bool> seen(graph_.vertices.size(), false);
  std::vector<vertex_id> level{from}, below;
  seen[from] = true;
  while (!level.empty()) {
    vertex_id best = no_vertex;
    below.clear();
    for (vertex_id v : level) {
      if (graph_.vertices[v].kind == vertex_kind::host_memory) best = std::min(best, v);
      if (v != from && !passes_on(graph_.vertices[v].kind)) continue;
      for (std::uint32_t at = first_[v]; at < first_[v + 1]; ++at) {
        const edge& e = graph_.edges[outgoing_[at]];
        if (e.kind == edge_kind::nvlink || seen[e.to]) continue;
        seen[e.to] = true;
        below.push_back(e.to);
      }
    }
    if (best != no_vertex) return best;
    level.swap(below);
  }
  return no_vertex;
}

path find_path(const graph& g, vertex_id from, vertex_id to) { return path_finder(g).find(from, to); }

}  // namespace xyl::topo
