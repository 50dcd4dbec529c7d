// SPDX-License-Identifier: BSD-3-Clause
// The i-th members of all islands are a rail. Inside an island everyone exchanges with everyone, because few are
// near; across, each rail exchanges its own share, so that an uplink carries 2 (S-1)/S of a message for S islands
// whatever is below it. The exchange across goes all to all or around a ring of islands, in the rings' own order;
// where a write collapse is flagged it is split so that each switch writes to one root complex at a time.
#include <algorithm>

#include "topo/schedule_parts.hpp"

namespace xyl::topo {
namespace {

class island_schedules {
 public:
  // islands: in the order in which data goes around; the i-th members of all are a rail.
  island_schedules(const fabric& f, pattern what, std::uint16_t root, std::vector<member_list> islands)
      : f_(f),
        what_(what),
        root_(root),
        islands_(std::move(islands)),
        count_(static_cast<double>(islands_.size())),
        size_(static_cast<double>(islands_[0].size())) {
    for (std::size_t i = 0; i < islands_[0].size(); ++i) {
      member_list rail;
      for (const member_list& island : islands_) rail.push_back(island[i]);
      rails_.push_back(std::move(rail));
    }
  }

  [[nodiscard]] std::vector<phase> phases(direction in, direction between, bool by_ring) const {
    const double n = count_ * size_;
    switch (what_) {
      case pattern::all_reduce: {
        std::vector<phase> list{inside("reduce-scatter inside", in, 1 / size_)};
        if (by_ring) {
          list.push_back(rings("rings across", 2 * (count_ - 1) / n, 2));
        } else {
          append(list, split(across("reduce-scatter across", between, 1 / n)));
          append(list, split(across("allgather across", between, 1 / n)));
        }
        list.push_back(inside("allgather inside", in, 1 / size_));
        return list;
      }
      case pattern::all_gather:
      case pattern::reduce_scatter: {
        const bool gather = what_ == pattern::all_gather;
        std::vector<phase> list;
        const phase near = inside(gather ? "allgather inside" : "reduce-scatter inside", in, 1 / size_);
        if (!gather) list.push_back(near);
        if (by_ring)
          list.push_back(rings("rings across", (count_ - 1) / n, 1));
        else
          append(list, split(across(gather ? "allgather across" : "reduce-scatter across", between, 1 / n)));
        if (gather) list.push_back(near);
        return list;
      }
      case pattern::broadcast:
        return broadcast(in, between, by_ring);
      case pattern::all_to_all: {
        std::vector<phase> list{inside("to rails inside", in, 1 / size_)};
        append(list, split(across("along rails", between, 1 / count_)));
        return list;
      }
    }
    return {};
  }

 private:
  [[nodiscard]] phase inside(const char* name, direction how, double bytes) const {
    phase p = exchange(name, how);
    for (const member_list& island : islands_) add_all_pairs(p, island, bytes);
    return p;
  }
  [[nodiscard]] phase across(const char* name, direction how, double bytes) const {
    phase p = exchange(name, how);
    for (const member_list& rail : rails_) add_all_pairs(p, rail, bytes);
    return p;
  }
  // Every rail is a ring of its own: bytes are per member, not shared between them.
  [[nodiscard]] phase rings(const char* name, double bytes, unsigned times) const {
    return around(name, rails_, bytes * static_cast<double>(rails_.size()),
                  times * static_cast<unsigned>(islands_.size() - 1));
  }
  [[nodiscard]] std::vector<phase> split(const phase& p) const {
    return f_.collapse_flagged ? split_by_target(f_, p) : std::vector<phase>{p};
  }
  static void append(std::vector<phase>& list, std::vector<phase> more) {
    for (phase& p : more) list.push_back(std::move(p));
  }

  [[nodiscard]] std::vector<phase> broadcast(direction in, direction between, bool by_ring) const {
    std::size_t home = 0;
    for (std::size_t i = 0; i < islands_.size(); ++i)
      if (std::find(islands_[i].begin(), islands_[i].end(), root_) != islands_[i].end()) home = i;
    phase scatter = exchange("scatter inside", in);
    for (std::uint16_t to : islands_[home])
      if (to != root_) scatter.transfers.push_back({root_, to, 1 / size_});
    std::vector<phase> list{scatter};
    if (by_ring) {
      phase along = rings("chains across", 1 / size_, 1);
      std::erase_if(along.transfers, [&](const transfer& t) {
        return std::find(islands_[home].begin(), islands_[home].end(), t.to) != islands_[home].end();
      });
      along.stretch = 1 + (count_ - 2) / f_.constants.pipeline_parts;
      list.push_back(std::move(along));
    } else {
      phase to_all = exchange("across", between);
      for (const member_list& rail : rails_)
        for (std::size_t i = 0; i < rail.size(); ++i)
          if (i != home) to_all.transfers.push_back({rail[home], rail[i], 1 / size_});
      append(list, split(to_all));
    }
    list.push_back(inside("allgather inside", in, 1 / size_));
    return list;
  }

  const fabric& f_;
  pattern what_;
  std::uint16_t root_;
  std::vector<member_list> islands_;
  double count_;
  double size_;
  std::vector<member_list> rails_;
};

// Six islands of which the first stays have 120 orders.
constexpr std::size_t most_permuted = 6;

// Islands for an exchange around a ring in the best order there is, where there are few; else in the rings' order.
std::vector<member_list> order_islands(const fabric& f, std::vector<member_list> islands, const ring_set& rings,
                                       const island_level& level) {
  if (islands.size() > most_permuted) {
    std::vector<std::size_t> order;
    for (std::uint16_t m : rings.orders[0])
      if (std::find(order.begin(), order.end(), level.of_member[m]) == order.end())
        order.push_back(level.of_member[m]);
    std::vector<member_list> sorted;
    for (std::size_t i : order) sorted.push_back(islands[i]);
    return sorted;
  }
  const auto time = [&](const std::vector<member_list>& ordered) {
    load_table loads(f);
    for (std::size_t rail = 0; rail < ordered[0].size(); ++rail)
      for (std::size_t i = 0; i < ordered.size(); ++i)
        loads.add(f, f.gpu_of_member[ordered[i][rail]], f.gpu_of_member[ordered[(i + 1) % ordered.size()][rail]], 1,
                  direction::push);
    return loads.time_per_byte(f, false);
  };
  std::vector<member_list> best = islands;
  double least = time(islands);
  // Islands are numbered by their least member, so these are permutations of hardware.
  while (std::next_permutation(islands.begin() + 1, islands.end())) {
    const double tried = time(islands);
    if (tried >= least * (1 - 1e-9)) continue;
    least = tried;
    best = islands;
  }
  return best;
}

bool pulls_are_trusted(const fabric& f, const schedule& s) {
  for (const phase& p : s.phases)
    for (const transfer& t : p.transfers)
      if (p.how == direction::pull && !f.between(f.gpu_of_member[t.from], f.gpu_of_member[t.to]).pull_trusted)
        return false;
  return true;
}

}  // namespace

void add_hierarchical(const fabric& f, pattern what, const ring_set& rings, std::span<const island_level> levels,
                      std::uint16_t root, std::vector<schedule>& out) {
  for (const island_level& level : levels) {
    if (!level.regular()) continue;
    for (bool by_ring : {false, true}) {
      // All-to-all data has to reach its own receiver: nothing is gained around a ring.
      if (by_ring && what == pattern::all_to_all) continue;
      // All to all, the order of islands does not matter.
      const island_schedules of(f, what, root,
                                by_ring ? order_islands(f, level.members(), rings, level) : level.members());
      for (direction inside : {direction::push, direction::pull})
        for (direction across : {direction::push, direction::pull}) {
          // A ring is pushed around.
          if (by_ring && across == direction::pull) continue;
          schedule s;
          s.what = what;
          s.how = method::hierarchical;
          s.inside = inside;
          s.across = across;
          s.by_ring = by_ring;
          s.level = level.kind;
          s.phases = of.phases(inside, across, by_ring);
          s.staged = f.collapse_flagged && across == direction::push && !by_ring;
          if (pulls_are_trusted(f, s)) out.push_back(std::move(s));
        }
    }
  }
}

}  // namespace xyl::topo
