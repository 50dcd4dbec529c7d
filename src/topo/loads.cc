// SPDX-License-Identifier: BSD-3-Clause
#include "topo/loads.hpp"

#include <algorithm>

#include "topo/islands.hpp"

namespace xyl::topo {

load_table::load_table(const fabric& f)
    : write_(f.machine->edges.size(), 0),
      read_(f.machine->edges.size(), 0),
      inside_(f.gpus.size(), 0),
      unrouted_(f.gpus.size(), 0),
      targets_(f.gpus.size()),
      switch_of_edge_(f.collapse_flagged ? f.machine->edges.size() : 0, no_switch) {}

void load_table::add(const fabric& f, std::uint16_t from_gpu, std::uint16_t to_gpu, double bytes, direction how) {
  if (bytes <= 0) return;
  if (from_gpu == to_gpu) {
    inside_[from_gpu] += bytes;
    return;
  }
  const route& r = f.between(from_gpu, to_gpu);
  if (r.edges.empty()) {
    unrouted_[from_gpu] += bytes;
    unrouted_[to_gpu] += bytes;
    return;
  }
  const bool pull = how == direction::pull && !r.staged();
  const std::uint32_t written = pull ? 0 : r.written;
  for (std::uint32_t i = 0; i < r.edges.size(); ++i) (i < written ? write_ : read_)[r.edges[i]] += bytes;
  const std::uint16_t of = f.switch_of_gpu[from_gpu];
  if (of == no_switch || pull || r.target == no_vertex) return;
  std::vector<vertex_id>& targets = targets_[of];
  if (std::find(targets.begin(), targets.end(), r.target) == targets.end()) targets.push_back(r.target);
  if (!f.collapse_flagged) return;
  for (std::uint32_t i = 0; i < written; ++i)
    if (f.leaves_switch[r.edges[i]]) switch_of_edge_[r.edges[i]] = of;
}

load_table::slowest load_table::find_slowest(const fabric& f, bool copy_engine) const {
  slowest worst;
  for (std::uint32_t e = 0; e < write_.size(); ++e) {
    if (write_[e] == 0 && read_[e] == 0) continue;
    double share = 1;
    if (f.collapse_flagged && switch_of_edge_[e] != no_switch) {
      const std::size_t targets = targets_[switch_of_edge_[e]].size();
      // Published for two root complexes; with three the same machine was slower in proportion.
      if (targets > 1) share = f.collapse * 2.0 / static_cast<double>(targets);
    }
    double time = write_[e] / (f.write[e] * share) + read_[e] / f.read[e];
    if (copy_engine) time /= f.copy_engine_gain[e];
    if (time > worst.time) worst = {time, e, -1};
  }
  for (std::size_t i = 0; i < f.groups.size(); ++i) {
    double sum = 0;
    for (std::uint32_t e : f.groups[i].edges) sum += write_[e] + read_[e];
    if (sum / f.groups[i].total > worst.time) worst = {sum / f.groups[i].total, -1, static_cast<std::int64_t>(i)};
  }
  for (double bytes : inside_) worst.time = std::max(worst.time, bytes / f.constants.same_gpu_capacity);
  for (double bytes : unrouted_) worst.time = std::max(worst.time, bytes / f.constants.unknown_capacity);
  return worst;
}

double load_table::time_per_byte(const fabric& f, bool copy_engine) const {
  return find_slowest(f, copy_engine).time;
}

std::string load_table::bottleneck(const fabric& f) const {
  const slowest worst = find_slowest(f, false);
  const graph& g = *f.machine;
  if (worst.group >= 0) return "group " + f.groups[static_cast<std::size_t>(worst.group)].name;
  if (worst.edge < 0) return worst.time > 0 ? "memory of a GPU, or links that nothing is known of" : "nothing";
  const edge& e = g.edges[static_cast<std::size_t>(worst.edge)];
  return g.vertices[e.from].name + " -> " + g.vertices[e.to].name;
}

unsigned load_table::most_targets() const {
  std::size_t most = 0;
  for (const auto& targets : targets_) most = std::max(most, targets.size());
  return static_cast<unsigned>(most);
}

std::vector<edge_load> load_table::loads() const {
  std::vector<edge_load> list;
  for (std::uint32_t e = 0; e < write_.size(); ++e)
    if (write_[e] != 0 || read_[e] != 0) list.push_back({e, write_[e], read_[e]});
  return list;
}

}  // namespace xyl::topo
