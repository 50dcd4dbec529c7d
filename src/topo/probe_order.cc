// SPDX-License-Identifier: BSD-3-Clause
#include "topo/probe_order.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

#include "topo/islands.hpp"
#include "topo/paths.hpp"

namespace xyl::topo {
namespace {

// What a meeting of all ranks between two steps takes, with the wake-up of a helper, where ranks have processors.
constexpr std::uint32_t meeting_us = 250;
constexpr std::uint32_t alone_us = 1000, together_us = 3000, round_trips = 200;
// A flag's way takes less than this wherever a probe is worth while.
constexpr std::uint32_t round_trip_us = 5;

template <class Number>
bool all_ranks(const Number* list, std::size_t count, std::uint32_t ranks) {
  return std::all_of(list, list + count, [&](Number n) { return n < ranks; });
}

// One rank of each GPU, by the number of the GPU's first rank.
std::vector<std::uint8_t> representatives(const std::vector<std::uint32_t>& gpu_of_rank) {
  std::vector<std::uint8_t> first;
  std::set<std::uint32_t> seen;
  for (std::size_t r = 0; r < gpu_of_rank.size(); ++r)
    if (seen.insert(gpu_of_rank[r]).second) first.push_back(static_cast<std::uint8_t>(r));
  return first;
}

// Where GPUs are neighbours in the machine's order they are near each other, so that the circle has near and far
// pairs, and every uplink carries its share.
void order_by_place(const probe_plan_input& in, std::vector<std::uint8_t>& ranks) {
  if (in.machine == nullptr) return;
  const std::vector<vertex_id> gpus = in.machine->gpus();
  const auto place = [&](std::uint8_t r) {
    return std::find(gpus.begin(), gpus.end(), in.vertex_of_rank[r]) - gpus.begin();
  };
  std::stable_sort(ranks.begin(), ranks.end(), [&](auto a, auto b) { return place(a) < place(b); });
}

std::vector<probe_pair> all_pairs(const std::vector<std::uint8_t>& ranks) {
  std::vector<probe_pair> pairs;
  for (std::uint8_t a : ranks)
    for (std::uint8_t b : ranks)
      if (a != b) pairs.push_back({a, b});
  return pairs;
}

// The first of each class of path, and its way back; without a graph all are of one class.
std::vector<probe_pair> one_of_each_class(const probe_plan_input& in, const std::vector<probe_pair>& pairs) {
  std::set<std::string> seen;
  std::set<std::pair<std::uint8_t, std::uint8_t>> chosen;
  std::vector<probe_pair> kept;
  if (in.machine == nullptr) return {pairs.begin(), pairs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(pairs))};
  const path_finder finder(*in.machine);
  for (const probe_pair& p : pairs) {
    const bool is_new =
        seen.insert(name_of(finder.find(in.vertex_of_rank[p.from], in.vertex_of_rank[p.to]))).second;
    if (is_new || chosen.contains({p.to, p.from})) kept.push_back(p);
    if (is_new) chosen.insert({p.from, p.to});
  }
  return kept;
}

vertex_id root_complex_towards(const graph& g, const path& p) {
  vertex_id last = no_vertex;
  for (std::uint32_t e : p.edges)
    if (g.vertices[g.edges[e].to].kind == vertex_kind::root_complex) last = g.edges[e].to;
  return last;
}

// Two sources below one switch, and three targets elsewhere: two that writes reach over one root complex, one over
// another.
bool find_fan(const probe_plan_input& in, const std::vector<std::uint8_t>& ranks, std::uint8_t (&fan)[5]) {
  if (in.machine == nullptr || in.on_host) return false;
  std::vector<vertex_id> gpus;
  for (std::uint8_t r : ranks) gpus.push_back(in.vertex_of_rank[r]);
  const std::vector<std::uint16_t> switches = switch_of_members(*in.machine, gpus);
  const path_finder finder(*in.machine);
  for (std::size_t a = 0; a < ranks.size(); ++a)
    for (std::size_t b = a + 1; b < ranks.size(); ++b) {
      if (switches[a] == no_switch || switches[a] != switches[b]) continue;
      std::map<vertex_id, std::vector<std::uint8_t>> behind;
      for (std::size_t t = 0; t < ranks.size(); ++t) {
        if (switches[t] == switches[a]) continue;
        const path p = finder.find(gpus[a], gpus[t]);
        const vertex_id complex = root_complex_towards(*in.machine, p);
        if (complex != no_vertex && p.what != path_class::host) behind[complex].push_back(ranks[t]);
      }
      for (const auto& [complex, near] : behind)
        for (const auto& [other, far] : behind)
          if (complex != other && near.size() >= 2) {
            const std::uint8_t found[5] = {ranks[a], ranks[b], near[0], near[1], far[0]};
            std::memcpy(fan, found, sizeof fan);
            return true;
          }
    }
  return false;
}

}  // namespace

const char* name_of(probe_kind kind) {
  static constexpr std::array names{"write", "verify",     "read",      "push",      "pull",
                                    "flags", "host write", "host read", "hand over", "take over"};
  return static_cast<std::size_t>(kind) < names.size() ? names[static_cast<std::size_t>(kind)] : "?";
}

const char* name_of(probe_purpose purpose) {
  static constexpr std::array names{"proof",  "warm-up",    "alone",       "both ways", "together",
                                    "across", "one target", "two targets", "staging"};
  return static_cast<std::size_t>(purpose) < names.size() ? names[static_cast<std::size_t>(purpose)] : "?";
}

bool probe_order::plausible(std::uint32_t of_ranks) const {
  if (run == 0) return true;
  if (run != 1 || ranks != of_ranks || ranks < 2 || ranks > probe_most_ranks || on_host > 1 || has_fan > 1)
    return false;
  if (pairs > probe_most_pairs || around_count > ranks || nodes > probe_most_nodes) return false;
  for (std::uint32_t i = 0; i < pairs; ++i)
    if (alone[i].from >= ranks || alone[i].to >= ranks || alone[i].from == alone[i].to) return false;
  if (!all_ranks(around, around_count, ranks) || (has_fan && !all_ranks(fan, std::size(fan), ranks))) return false;
  const auto acts_or_not = [&](std::uint8_t a) { return a <= 1; };
  if (!std::all_of(acts, acts + ranks, acts_or_not)) return false;
  const auto takes_part = [&](std::uint8_t rank) { return acts[rank] != 0; };
  if (!std::all_of(around, around + around_count, takes_part)) return false;
  if (has_fan && !std::all_of(fan, fan + std::size(fan), takes_part)) return false;
  for (std::uint32_t i = 0; i < pairs; ++i)
    if (!takes_part(alone[i].from) || !takes_part(alone[i].to)) return false;
  // Nobody is to act twice in a step.
  if (std::set<std::uint8_t>(around, around + around_count).size() != around_count) return false;
  if (has_fan && fan[0] == fan[1]) return false;
  return alone_us <= 100'000 && together_us <= 100'000 && round_trips <= 100'000 && step_ms <= 60'000 &&
         start_ms <= 120'000;
}

int probe_step::peer_of(int rank) const {
  if (active.empty()) return everyone;
  for (const probe_pair& p : active) {
    if (p.from == rank) return p.to;
    // Who is sent flags to answers them, and what is done in turn is done by both.
    const bool by_both =
        kind == probe_kind::flags || kind == probe_kind::hand_over || kind == probe_kind::take_over;
    if (by_both && p.to == rank) return p.from;
  }
  return no_part;
}

std::vector<probe_step> steps_of(const probe_order& order) {
  std::vector<probe_step> steps;
  if (order.run == 0) return steps;
  using enum probe_kind;
  const auto add = [&](probe_kind kind, probe_purpose purpose, std::vector<probe_pair> active, std::uint32_t us,
                       std::uint32_t node = 0) {
    steps.push_back({kind, purpose, std::move(active), us, node});
  };
  for (probe_kind kind : {write, verify, read}) add(kind, probe_purpose::proof, {}, 0);

  std::vector<probe_pair> circle;
  for (std::uint32_t i = 0; order.around_count > 1 && i < order.around_count; ++i)
    circle.push_back({order.around[i], order.around[(i + 1) % order.around_count]});
  // Idle links train down, and clocks too.
  if (!circle.empty()) add(push, probe_purpose::warm_up, circle, order.together_us);
  // Processors keep what they have written or read: how fast memory is that nobody else uses says nothing of ranks.
  const probe_kind stores = order.on_host ? hand_over : push, loads = order.on_host ? take_over : pull;
  for (std::uint32_t i = 0; i < order.pairs; ++i)
    for (probe_kind kind : {stores, loads}) add(kind, probe_purpose::alone, {order.alone[i]}, order.alone_us);
  for (std::uint32_t i = 0; i < order.pairs; ++i) {
    const probe_pair p = order.alone[i];
    // There and back is one measurement.
    const bool is_second = std::find(order.alone, order.alone + i, probe_pair{p.to, p.from}) != order.alone + i;
    if (!is_second) add(flags, probe_purpose::alone, {p}, 0);
  }
  if (order.pairs > 0) {
    const probe_pair p = order.alone[0];
    add(push, probe_purpose::both_ways, {p, {p.to, p.from}}, order.together_us);
  }
  if (circle.size() > 2)
    for (probe_kind kind : {push, pull}) add(kind, probe_purpose::together, circle, order.together_us);
  if (circle.size() > 3) {
    std::vector<probe_pair> across;
    const std::uint32_t n = order.around_count;
    for (std::uint32_t i = 0; i < n; ++i) across.push_back({order.around[i], order.around[(i + n / 2) % n]});
    for (probe_kind kind : {push, pull}) add(kind, probe_purpose::across, across, order.together_us);
  }
  if (order.has_fan) {
    const std::uint8_t* f = order.fan;
    for (probe_kind kind : {push, pull}) {
      add(kind, probe_purpose::one_target, {{f[0], f[2]}, {f[1], f[3]}}, order.together_us);
      add(kind, probe_purpose::two_targets, {{f[0], f[2]}, {f[1], f[4]}}, order.together_us);
    }
  }
  for (std::uint32_t n = 0; n < order.nodes; ++n)
    for (std::uint32_t i = 0; i < order.around_count; ++i)
      for (probe_kind kind : {host_write, host_read})
        add(kind, probe_purpose::staging, {{order.around[i], order.around[i]}}, order.alone_us, order.node[n]);
  return steps;
}

std::uint32_t expected_us(const probe_order& order) {
  std::uint32_t sum = 0;
  for (const probe_step& s : steps_of(order))
    sum += meeting_us + s.duration_us + (s.kind == probe_kind::flags ? order.round_trips * round_trip_us : 0);
  return sum;
}

probe_order order_probe(const probe_plan_input& in) {
  probe_order order;
  std::memset(&order, 0, sizeof order);
  order.run = 1;
  order.ranks = static_cast<std::uint32_t>(in.gpu_of_rank.size());
  order.on_host = in.on_host;
  order.alone_us = alone_us;
  order.together_us = together_us;
  order.round_trips = round_trips;
  // On the host, ranks and helpers may be many more than processors.
  order.step_ms = in.on_host ? 4000 : 2000;
  order.start_ms = 10'000;
  order.seed = in.seed;

  std::vector<std::uint8_t> acting = representatives(in.gpu_of_rank);
  order_by_place(in, acting);
  order.around_count = static_cast<std::uint32_t>(acting.size());
  std::copy(acting.begin(), acting.end(), order.around);
  order.has_fan = find_fan(in, acting, order.fan) ? 1 : 0;
  for (int node : in.nodes)
    if (node >= 0 && node < 256 && order.nodes < probe_most_nodes && !in.on_host)
      order.node[order.nodes++] = static_cast<std::uint8_t>(node);

  std::vector<probe_pair> pairs = all_pairs(acting);
  for (std::size_t r = 0; in.on_host && r < order.ranks; ++r) order.acts[r] = 1;
  for (std::uint8_t a : acting) order.acts[a] = 1;
  // Ranks that share a GPU: the first two of each.
  for (std::uint8_t a : acting)
    for (std::size_t b = 0; b < in.gpu_of_rank.size(); ++b)
      if (b != a && in.gpu_of_rank[b] == in.gpu_of_rank[a]) {
        pairs.push_back({a, static_cast<std::uint8_t>(b)});
        order.acts[b] = 1;
        break;
      }
  const auto take = [&](const std::vector<probe_pair>& chosen) {
    order.pairs = static_cast<std::uint32_t>(std::min<std::size_t>(chosen.size(), probe_most_pairs));
    std::copy_n(chosen.begin(), order.pairs, order.alone);
  };
  take(pairs);
  if (pairs.size() <= probe_most_pairs && expected_us(order) <= probe_budget_us) return order;
  take(one_of_each_class(in, pairs));
  // Of many GPUs one shows what host memory does.
  if (expected_us(order) > probe_budget_us) order.nodes = std::min<std::uint32_t>(order.nodes, 2);
  return order;
}

}  // namespace xyl::topo
