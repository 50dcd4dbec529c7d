// SPDX-License-Identifier: BSD-3-Clause
// The flat algorithms, and what all share.
#include "topo/schedule.hpp"

#include <algorithm>
#include <numeric>

#include "topo/schedule_parts.hpp"

namespace xyl::topo {

phase exchange(const char* name, direction how) {
  phase p;
  p.name = name;
  p.how = how;
  p.flag_ways = flag_ways_of(how);
  return p;
}

void add_all_pairs(phase& p, const member_list& members, double bytes) {
  for (std::uint16_t from : members)
    for (std::uint16_t to : members)
      if (from != to) p.transfers.push_back({from, to, bytes});
}

phase around(const char* name, const std::vector<member_list>& rings, double bytes, unsigned rounds) {
  phase p;
  p.name = name;
  p.rounds = rounds;
  p.flag_ways = 1;
  const double share = bytes / static_cast<double>(rings.size());
  for (const member_list& ring : rings)
    for (std::size_t i = 0; i < ring.size(); ++i)
      p.transfers.push_back({ring[i], ring[(i + 1) % ring.size()], share});
  return p;
}

std::vector<phase> split_by_target(const fabric& f, const phase& p) {
  // Of each switch the root complexes it writes to. Switches begin at different ones, so that a part has not all of
  // them writing to the same.
  std::vector<std::vector<vertex_id>> targets(f.gpus.size());
  const auto target_of = [&](const transfer& t) {
    const std::uint16_t from = f.gpu_of_member[t.from], to = f.gpu_of_member[t.to];
    if (from == to || f.switch_of_gpu[from] == no_switch) return no_vertex;
    return f.between(from, to).target;
  };
  if (p.how == direction::push)
    for (const transfer& t : p.transfers) {
      const vertex_id target = target_of(t);
      if (target == no_vertex) continue;
      auto& of = targets[f.switch_of_gpu[f.gpu_of_member[t.from]]];
      if (std::find(of.begin(), of.end(), target) == of.end()) of.push_back(target);
    }
  std::size_t parts = 1;
  for (std::size_t s = 0; s < targets.size(); ++s) {
    parts = std::max(parts, targets[s].size());
    if (!targets[s].empty())
      std::rotate(targets[s].begin(), targets[s].begin() + static_cast<std::ptrdiff_t>(s % targets[s].size()),
                  targets[s].end());
  }
  std::vector<phase> split(parts, p);
  if (parts == 1) return split;
  for (phase& part : split) part.transfers.clear();
  for (const transfer& t : p.transfers) {
    const vertex_id target = target_of(t);
    std::size_t at = 0;
    if (target != no_vertex) {
      const auto& of = targets[f.switch_of_gpu[f.gpu_of_member[t.from]]];
      at = static_cast<std::size_t>(std::find(of.begin(), of.end(), target) - of.begin());
    }
    split[at].transfers.push_back(t);
  }
  return split;
}

load_table loads_of(const fabric& f, const phase& p) {
  load_table loads(f);
  for (const transfer& t : p.transfers)
    loads.add(f, f.gpu_of_member[t.from], f.gpu_of_member[t.to], t.bytes, p.how);
  return loads;
}

bool respects_collapse(const fabric& f, const schedule& s) {
  return std::all_of(s.phases.begin(), s.phases.end(),
                     [&](const phase& p) { return loads_of(f, p).most_targets() <= 1; });
}

namespace {

class flat_schedules {
 public:
  flat_schedules(const fabric& f, pattern what, std::uint16_t root, std::vector<schedule>& out)
      : f_(f), what_(what), root_(root), n_(f.members()), out_(out) {
    all_.resize(f.members());
    std::iota(all_.begin(), all_.end(), std::uint16_t{0});
    pulls_ = std::all_of(f.routes.begin(), f.routes.end(), [](const route& r) { return r.pull_trusted; });
  }

  void add_direct() {
    // A packet carries as much epoch as data.
    phase packet = everyone("packets to every peer", direction::push, 2 * share_to_each());
    packet.flag_ways = 1;
    add(method::packet, {packet}, false);
    add_both(method::one_shot,
             [&](direction how) { return std::vector<phase>{everyone("to every peer", how, share_to_each())}; });
    if (what_ == pattern::all_reduce) {
      phase scatter = everyone("packets to owners", direction::push, 2 / n_);
      phase gather = everyone("packets from owners", direction::push, 2 / n_);
      scatter.flag_ways = gather.flag_ways = 1;
      add(method::two_shot_packet, {scatter, gather}, false);
      add_both(method::two_shot, [&](direction how) {
        return std::vector<phase>{everyone("reduce-scatter", how, 1 / n_), everyone("allgather", how, 1 / n_)};
      });
    }
    if (what_ == pattern::broadcast)
      add_both(method::two_shot, [&](direction how) {
        phase gather = exchange("allgather", how);
        add_all_pairs(gather, all_, 1 / n_);
        return std::vector<phase>{everyone("scatter", how, 1 / n_), gather};
      });
  }

  void add_rings(const ring_set& rings) {
    const auto steps = static_cast<unsigned>(f_.members() - 1);
    phase p;
    switch (what_) {
      case pattern::all_reduce:
        p = around("around the rings, twice", rings.orders, 2 * (n_ - 1) / n_, 2 * steps);
        break;
      case pattern::all_gather:
      case pattern::reduce_scatter:
        p = around("around the rings", rings.orders, (n_ - 1) / n_, steps);
        break;
      case pattern::broadcast:
        p = chain(rings, steps);
        break;
      case pattern::all_to_all:
        return;
    }
    add(method::ring, {p}, false);
    p.copy_engine = true;
    add(method::copy_engine_ring, {p}, false);
  }

 private:
  [[nodiscard]] double share_to_each() const {
    return what_ == pattern::all_reduce || what_ == pattern::broadcast ? 1 : 1 / n_;
  }

  // To every peer; of a broadcast, from the root.
  [[nodiscard]] phase everyone(const char* name, direction how, double bytes) const {
    phase p = exchange(name, how);
    if (what_ != pattern::broadcast) {
      add_all_pairs(p, all_, bytes);
    } else {
      for (std::uint16_t to : all_)
        if (to != root_) p.transfers.push_back({root_, to, bytes});
    }
    return p;
  }

  // From the root once around each ring, cut into parts that follow each other.
  [[nodiscard]] phase chain(const ring_set& rings, unsigned steps) const {
    phase p = around("along the rings", rings.orders, 1, steps);
    std::erase_if(p.transfers, [&](const transfer& t) { return t.to == root_; });
    p.stretch = 1 + (steps - 1) / f_.constants.pipeline_parts;
    return p;
  }

  void add(method how, std::vector<phase> phases, bool staged, direction d = direction::push) {
    schedule s;
    s.what = what_;
    s.how = how;
    s.staged = staged;
    s.inside = s.across = d;
    s.phases = std::move(phases);
    out_.push_back(std::move(s));
  }

  template <typename Make>
  void add_both(method how, Make make) {
    const std::vector<phase> pushed = make(direction::push);
    add(how, pushed, false);
    if (f_.collapse_flagged) {
      std::vector<phase> split;
      for (const phase& p : pushed)
        for (phase& part : split_by_target(f_, p)) split.push_back(std::move(part));
      if (split.size() > pushed.size()) add(how, std::move(split), true);
    }
    if (pulls_) add(how, make(direction::pull), false, direction::pull);
  }

  const fabric& f_;
  pattern what_;
  std::uint16_t root_;
  double n_;
  std::vector<schedule>& out_;
  member_list all_;
  bool pulls_ = false;
};

}  // namespace

std::vector<schedule> schedules_for(const fabric& f, pattern what, const ring_set& rings,
                                    std::span<const island_level> levels, std::uint16_t root) {
  std::vector<schedule> list;
  flat_schedules flat(f, what, root, list);
  flat.add_direct();
  if (f.members() < 2) return list;
  flat.add_rings(rings);
  add_tree(f, what, rings, root, list);
  add_hierarchical(f, what, rings, levels, root, list);
  if (f.collapse_flagged)
    std::erase_if(list, [&](const schedule& s) { return !in_rank_order(s.how) && !respects_collapse(f, s); });
  return list;
}

}  // namespace xyl::topo
