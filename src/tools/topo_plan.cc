// SPDX-License-Identifier: BSD-3-Clause
#include "tools/topo_plan.hpp"

#include <algorithm>
#include <limits>
#include <sstream>
#include <vector>

#include "tools/topo_plan_request.hpp"
#include "topo/describe.hpp"
#include "topo/host_plan.hpp"

namespace xyl {
namespace {

using topo::candidate;
using topo::collective_plan;
using topo::plan;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += (text.empty() ? "" : " ") + std::to_string(rank);
  return text;
}

void print_order(const plan& p, std::ostream& out) {
  out << "ranks\n";
  for (std::size_t rank = 0; rank < p.places.size(); ++rank)
    out << format_text("  %3zu  %s%s%s\n", rank, p.places[rank].gpu.c_str(), p.places[rank].pci.empty() ? "" : "  ",
                       p.places[rank].pci.c_str());
  out << format_text("rings  %.1f GB/s over each edge of the ring, all rings at once\n", p.ring_rate);
  for (const auto& ring : p.rings) out << "  " << list_of(ring) << "\n";
  if (!p.trees.empty()) out << "trees  parent of each rank, - at the root\n";
  for (const auto& tree : p.trees) {
    out << " ";
    for (int parent : tree) out << " " << (parent < 0 ? std::string("-") : std::to_string(parent));
    out << "\n";
  }
  out << "islands\n";
  for (const topo::island_set& set : p.islands) {
    out << "  " << name_of(set.kind) << ": ";
    for (const auto& island : set.ranks) out << " [" << list_of(island) << "]";
    out << "\n";
  }
  if (p.collapse_flagged)
    out << "writes from one switch to two root complexes collapse: each phase keeps to one, rings run one way\n";
  for (const topo::bounce& b : p.bounces)
    out << format_text("rank %d receives through host memory: %s\n", b.rank,
                       b.memory.empty() ? "of unknown place" : b.memory.c_str());
  for (const std::string& note : p.notes) out << "note: " << note << "\n";
}

void print_winners(const collective_plan& c, std::ostream& out) {
  out << name_of(c.what) << " by size" << (c.reason.empty() ? "" : " (" + c.reason + ")") << "\n";
  for (const topo::size_range& r : c.ranges)
    out << "  " << (r.up_to_bytes == largest ? "larger" : "up to " + std::to_string(r.up_to_bytes) + " bytes")
        << ": " << name_of(c.candidates[r.candidate]) << "\n";
}

void print_candidates(const collective_plan& c, std::uint64_t bytes, std::ostream& out) {
  std::vector<const candidate*> sorted;
  for (const candidate& x : c.candidates) sorted.push_back(&x);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const candidate* a, const candidate* b) { return a->cost.us(bytes) < b->cost.us(bytes); });
  const candidate* winner = &c.winner(bytes);
  out << "predicted for " << topo::size_text(bytes) << "\n";
  for (const candidate* x : sorted)
    out << format_text("%s %10.1f us  = %.1f us + %.1f us per MB  %s\n", x == winner ? "*" : " ", x->cost.us(bytes),
                       x->cost.fixed_us, x->cost.ns_per_byte * 1000, name_of(*x).c_str());
}

void print_phases(const topo::graph& g, const candidate& c, std::uint64_t bytes, std::ostream& out) {
  out << "phases of " << name_of(c) << "\n";
  for (const topo::phase_cost& p : c.phases) {
    out << format_text("  %s: %s, %u round%s, %.1f us, limited by %s\n", p.name.c_str(), name_of(p.how), p.rounds,
                       p.rounds == 1 ? "" : "s", p.cost.us(bytes), p.bottleneck.c_str());
    for (const topo::edge_load& load : p.loads) {
      const topo::edge& e = g.edges[load.edge];
      const auto show = [&](double share, const char* how, const topo::figure& capacity) {
        if (share <= 0) return;
        const std::string limit =
            capacity.known() ? format_text("of %.1f GB/s", capacity.value) : std::string("of unknown capacity");
        out << format_text("    %14.0f bytes %s %s -> %s, %s\n", share * static_cast<double>(bytes), how,
                           g.vertices[e.from].name.c_str(), g.vertices[e.to].name.c_str(), limit.c_str());
      };
      show(load.write, "written", e.write);
      show(load.read, "read", e.read);
    }
  }
}

// Processes, which meet in host memory: as many on each NUMA node, neighbours in number on one.
result plan_without_gpus(const topo::graph& g, const topo_plan_options& options, const topo::plan_request& request,
                         plan& out) {
  std::vector<int> nodes;
  for (const topo::vertex& v : g.vertices)
    if (v.kind == topo::vertex_kind::numa_node)
      nodes.push_back(static_cast<int>(v.os_index.value_or(nodes.size())));
  const std::size_t ranks = options.ranks.value_or(std::max<std::size_t>(2, nodes.size()));
  if (ranks < 2 || ranks > topo::most_members)
    return error(xylInvalidArgument, "%zu rank%s without GPUs; 2 to %zu can be planned", ranks,
                 ranks == 1 ? "" : "s", topo::most_members);
  std::vector<int> numa_of_rank(ranks, nodes.empty() ? -1 : 0);
  for (std::size_t rank = 0; rank < ranks && !nodes.empty(); ++rank)
    numa_of_rank[rank] = nodes[ranks <= nodes.size() ? rank : rank * nodes.size() / ranks];
  XYL_TRY(topo::make_host_plan({.numa_of_rank = numa_of_rank}, request, out));
  for (std::size_t rank = 0; rank < ranks && !nodes.empty(); ++rank)
    out.places[rank].gpu = format_text("process on NUMA node %d", numa_of_rank[rank]);
  out.notes.insert(out.notes.begin(),
                   "There is no GPU: ranks are processes, each with a processor of its own, that "
                   "meet in host memory.");
  return {};
}

}  // namespace

result request_of(const topo::graph& g, const topo_plan_options& options, topo::plan_request& out) {
  const std::vector<topo::vertex_id> gpus = g.gpus();
  const std::size_t ranks = options.ranks.value_or(gpus.size());
  if (gpus.empty() && options.nodes > 1)
    return error(xylInvalidArgument, "this machine has no GPU to plan a cluster for");
  if (!gpus.empty() && (ranks < 1 || ranks > topo::most_members))
    return error(xylInvalidArgument, "%zu ranks; 1 to %zu can be planned", ranks, topo::most_members);
  topo::plan_request request;
  // More ranks than GPUs: neighbours in number share one, as launchers place them.
  for (std::size_t rank = 0; rank < ranks && !gpus.empty(); ++rank)
    request.gpu_of_rank.push_back(gpus[ranks <= gpus.size() ? rank : rank * gpus.size() / ranks]);
  request.forced = options.forced;
  request.deterministic = options.deterministic;
  request.host_staged = options.host_staged;
  if (!options.plan_file.empty()) {
    topo::plan_override prescribed;
    XYL_TRY(topo::read_plan_file(options.plan_file.c_str(), prescribed));
    request.override_with = std::move(prescribed);
  }
  out = std::move(request);
  return {};
}

result plan_machine(const topo::graph& g, const topo_plan_options& options, bool every_collective, plan& out) {
  topo::plan_request request;
  XYL_TRY(request_of(g, options, request));
  if (!every_collective) request.what = {options.what};
  if (!request.gpu_of_rank.empty()) return topo::make_plan(g, request, out);
  return plan_without_gpus(g, options, request, out);
}

result print_plan(const topo::graph& g, const topo_plan_options& options, std::ostream& out) {
  plan p;
  XYL_TRY(plan_machine(g, options, false, p));
  print_order(p, out);
  print_winners(p.collectives[0], out);
  print_candidates(p.collectives[0], options.bytes, out);
  print_phases(g, p.collectives[0].winner(options.bytes), options.bytes, out);
  return {};
}

result print_plan_json(const topo::graph& g, const topo_plan_options& options, std::ostream& out) {
  plan p;
  XYL_TRY(plan_machine(g, options, true, p));
  out << topo::describe_text(p);
  return {};
}

result plan_cluster(const topo::graph& g, const topo_plan_options& options, topo::cluster_plan& out) {
  topo::cluster_request request;
  XYL_TRY(request_of(g, options, request.node));
  request.nodes = options.nodes;
  request.between = options.between;
  request.what = options.what;
  return topo::plan_cluster(g, request, out);
}

result print_cluster(const topo::graph& g, const topo_plan_options& options, std::ostream& out) {
  topo::cluster_plan p;
  XYL_TRY(plan_cluster(g, options, p));
  out << format_text("%u nodes of %u ranks, %.1f GB/s and %.2f us between them\n", p.nodes, p.ranks_per_node,
                     options.between.capacity, options.between.us);
  out << "ring ";
  for (std::size_t i = 0; i < std::min<std::size_t>(p.ring.size(), 16); ++i) out << " " << p.ring[i];
  out << (p.ring.size() > 16 ? " ...\n" : "\n");
  out << format_text("trees over nodes: %u and %u deep\n", topo::depth_of(p.trees.first),
                     topo::depth_of(p.trees.second));
  out << name_of(p.what) << " by size\n";
  for (const topo::lowest& l : p.ranges)
    out << "  " << (l.up_to_bytes == largest ? "larger" : "up to " + std::to_string(l.up_to_bytes) + " bytes")
        << ": " << p.candidates[l.index].name << "\n";
  out << "predicted for " << topo::size_text(options.bytes) << "\n";
  const topo::cluster_candidate* winner = &p.winner(options.bytes);
  for (const topo::cluster_candidate& c : p.candidates) {
    out << format_text("%s %10.1f us  %s\n", &c == winner ? "*" : " ", c.cost.us(options.bytes), c.name.c_str());
    if (&c != winner) continue;
    for (const topo::cluster_phase& phase : c.phases)
      out << format_text("             %10.1f us  %s\n", phase.cost.us(options.bytes), phase.name.c_str());
  }
  return {};
}

}  // namespace xyl
