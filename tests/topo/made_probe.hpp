// SPDX-License-Identifier: BSD-3-Clause
// A probe of a machine that is made up: answers to the steps of an order as a graph's links would give them, with
// faults planted. Rates of what happens at once divide what they share.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/paths.hpp"
#include "topo/pci_link.hpp"
#include "topo/probe_report.hpp"

namespace xyl::topo::test {

struct made_probe {
  graph truth;                     // whose figures are what the links really do
  std::vector<vertex_id> of_rank;  // the GPU of each rank
  double collapse = 1;             // share of writes to two root complexes at once
  std::map<std::pair<int, int>, probe_verdict> writes = {}, reads = {};  // ranks; what is not good
  std::map<int, std::string> gone = {};                                  // ranks whose helpers never started
  std::set<std::pair<int, int>> unseen = {};                             // between which no flag comes in time
  double host_rate = 0;                                                  // GB/s to and from host memory

  explicit made_probe(const graph& g) : truth(g), of_rank(g.gpus()) {}

  probe_plan_input input() const {
    probe_plan_input in{.gpu_of_rank = {}, .machine = &truth, .vertex_of_rank = of_rank, .nodes = {0, 1}};
    for (vertex_id v : of_rank) in.gpu_of_rank.push_back(v);
    return in;
  }
  // Index of each rank's GPU among the distinct ones, and their names.
  std::vector<std::uint32_t> gpu_of_rank() const {
    std::vector<std::uint32_t> list;
    for (vertex_id v : of_rank) list.push_back(index_of(v));
    return list;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (vertex_id v : distinct()) list.push_back(name_of(*truth.vertices[v].pci));
    return list;
  }

  probe_report run(const probe_order& order) const {
    std::vector<std::vector<probe_answer>> answers;
    for (const probe_step& step : steps_of(order)) {
      std::vector<probe_answer> all;
      for (std::size_t r = 0; r < of_rank.size(); ++r) {
        all.push_back(order.acts[r] ? answer(step, static_cast<int>(r)) : probe_answer{});
        for (std::size_t p = 0; p < of_rank.size(); ++p)
          if (order.acts[p] == 0) all.back().verdict[p] = 0;
      }
      answers.push_back(std::move(all));
    }
    return evaluate(order, gpu_of_rank(), names(), answers);
  }
  probe_report run() const { return run(order_probe(input())); }

 private:
  std::vector<vertex_id> distinct() const {
    std::vector<vertex_id> list;
    for (vertex_id v : of_rank)
      if (std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
    return list;
  }
  std::uint32_t index_of(vertex_id v) const {
    const std::vector<vertex_id> list = distinct();
    return static_cast<std::uint32_t>(std::find(list.begin(), list.end(), v) - list.begin());
  }

  probe_answer answer(const probe_step& step, int rank) const {
    probe_answer a{};
    if (gone.contains(rank)) {
      a.state = static_cast<std::uint32_t>(probe_state::gone);
      put_text(a.text, gone.at(rank));
      return a;
    }
    const int peer = step.peer_of(rank);
    if (peer == probe_step::no_part || gone.contains(peer)) return a;
    a.state = static_cast<std::uint32_t>(probe_state::done);
    if (peer == probe_step::everyone) {
      for (int p = 0; p < static_cast<int>(of_rank.size()); ++p)
        if (p != rank && !gone.contains(p)) a.verdict[p] = static_cast<std::uint8_t>(verdict(step.kind, rank, p));
    } else if (step.kind == probe_kind::flags) {
      const auto pair = std::pair{step.active.front().from, step.active.front().to};
      if (unseen.contains({pair.first, pair.second}))
        a.state = static_cast<std::uint32_t>(probe_state::failed);
      else
        a.value = 1;
    } else if (step.purpose == probe_purpose::staging) {
      a.value = host_rate;
    } else {
      a.value = rate(step, rank, peer);
    }
    return a;
  }

  probe_verdict verdict(probe_kind kind, int rank, int peer) const {
    const auto look = [](const auto& map, int from, int to) {
      const auto at = map.find({from, to});
      return at == map.end() ? probe_verdict::good : at->second;
    };
    if (kind == probe_kind::read) return look(reads, peer, rank);
    const probe_verdict v = kind == probe_kind::write ? look(writes, rank, peer) : look(writes, peer, rank);
    // Who writes sees whether it ends, who is written to what came.
    const bool is_writers = v == probe_verdict::silent || v == probe_verdict::unreachable;
    return is_writers == (kind == probe_kind::write) ? v : probe_verdict::good;
  }

  // Data goes from who pushes, or to who pulls.
  std::vector<std::uint32_t> way(const probe_step& step, int rank, int peer) const {
    const vertex_id here = of_rank[static_cast<std::size_t>(rank)], there = of_rank[static_cast<std::size_t>(peer)];
    const path_finder finder(truth);
    return step.kind == probe_kind::pull ? finder.find(there, here).edges : finder.find(here, there).edges;
  }

  double rate(const probe_step& step, int rank, int peer) const {
    if (of_rank[static_cast<std::size_t>(rank)] == of_rank[static_cast<std::size_t>(peer)]) return 1000;
    std::vector<unsigned> crossed(truth.edges.size());
    for (const probe_pair& p : step.active)
      for (std::uint32_t e : way(step, p.from, p.to)) ++crossed[e];
    double least = 1e6;
    for (std::uint32_t e : way(step, rank, peer)) {
      const figure& f = step.kind == probe_kind::pull ? truth.edges[e].read : truth.edges[e].write;
      if (f.known()) least = std::min(least, 0.85 * f.value / crossed[e]);
    }
    const bool collapses = step.purpose == probe_purpose::two_targets && step.kind == probe_kind::push;
    return collapses ? collapse * least : least;
  }
};

}  // namespace xyl::topo::test
