// SPDX-License-Identifier: BSD-3-Clause
#include "topo/describe.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace xyl::topo {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t shown_sizes[] = {1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 256 << 20};

// Three decimals: more than a model knows.
double rounded(double value) { return std::round(value * 1000) / 1000; }

json describe(const candidate& c) {
  json times = json::object();
  for (std::uint64_t bytes : shown_sizes) times[size_text(bytes)] = rounded(c.cost.us(bytes));
  json phases = json::array();
  for (const phase_cost& p : c.phases)
    phases.push_back({{"name", p.name},
                      {"direction", name_of(p.how)},
                      {"rounds", p.rounds},
                      {"fixed_us", rounded(p.cost.fixed_us)},
                      {"us_per_megabyte", rounded(p.cost.ns_per_byte * 1000)},
                      {"slowest", p.bottleneck}});
  return {{"name", name_of(c)},
          {"algorithm", name_of(c.how)},
          {"fixed_us", rounded(c.cost.fixed_us)},
          {"us_per_megabyte", rounded(c.cost.ns_per_byte * 1000)},
          {"predicted_us", times},
          {"phases", phases}};
}

json thresholds(const collective_plan& c) {
  json list = json::array();
  for (const size_range& r : c.ranges) {
    json range = json::object();
    if (r.up_to_bytes != largest) range["up_to"] = r.up_to_bytes;
    range["algorithm"] = name_of(c.candidates[r.candidate].how);
    range["how"] = name_of(c.candidates[r.candidate]);
    list.push_back(range);
  }
  return list;
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr const char* suffixes[] = {"", "K", "M", "G"};
  std::size_t suffix = 0;
  while (suffix < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++suffix;
  }
  return std::to_string(bytes) + suffixes[suffix];
}

json describe(const plan& p) {
  json ranks = json::array();
  for (std::size_t rank = 0; rank < p.places.size(); ++rank)
    ranks.push_back({{"rank", rank}, {"gpu", p.places[rank].gpu}, {"pci", p.places[rank].pci}});
  json islands = json::array();
  for (const island_set& set : p.islands) islands.push_back({{"kind", name_of(set.kind)}, {"ranks", set.ranks}});
  json bounces = json::array();
  for (const bounce& b : p.bounces)
    bounces.push_back({{"receiver", b.rank}, {"memory", b.memory}, {"numa_node", b.numa_node}});
  json winners = json::object(), considered = json::object(), reasons = json::object();
  for (const collective_plan& c : p.collectives) {
    winners[name_of(c.what)] = thresholds(c);
    json list = json::array();
    for (const candidate& x : c.candidates) list.push_back(describe(x));
    considered[name_of(c.what)] = list;
    if (!c.reason.empty()) reasons[name_of(c.what)] = c.reason;
  }
  return {{"ranks", ranks},
          {"rings", p.rings},
          {"ring_rate", rounded(p.ring_rate)},
          {"trees", p.trees},
          {"islands", islands},
          {"write_collapse", p.collapse_flagged},
          {"host_staged", p.host_staged},
          {"bounce_buffers", bounces},
          {"thresholds", winners},
          {"prescribed", reasons},
          {"considered", considered},
          {"notes", p.notes}};
}

std::string describe_text(const plan& p) {
  // Names may come from files: what is not UTF-8 is replaced, never thrown at.
  return describe(p).dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace xyl::topo
