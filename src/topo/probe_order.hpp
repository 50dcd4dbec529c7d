// SPDX-License-Identifier: BSD-3-Clause
// What a probe measures, in which order: rank 0 says it in a small table that every rank gets (probe_order), and
// from which every rank makes the same list of steps. A step is one thing that some ranks do at the same time;
// between two steps all ranks meet. First every rank writes into the memory of every other one and every rank looks
// at what came; then the rates between GPUs, alone and all at once, one rank of each GPU acting for it; the time of
// flags; two sources that write to one root complex and to two; the way through host memory.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "topo/graph.hpp"

namespace xyl::topo {

inline constexpr unsigned probe_most_ranks = 64;
inline constexpr unsigned probe_most_pairs = 256;
inline constexpr unsigned probe_most_nodes = 16;

enum class probe_kind : std::uint32_t {
  write,       // a pattern into the memory of every rank
  verify,      // what the others have written here
  read,        // and what this rank finds in the memory of the others
  push,        // rate of stores to one rank
  pull,        // rate of loads from one rank
  flags,       // there and back
  host_write,  // rate of stores to host memory of a NUMA node
  host_read,
  hand_over,  // host memory: rate of stores to lines that one rank reads in turn with them
  take_over,  // and of loads of lines that it writes in turn with them
};
[[nodiscard]] const char* name_of(probe_kind kind);

// Why a step is done: what its numbers mean.
enum class probe_purpose : std::uint32_t {
  proof,
  warm_up,
  alone,
  both_ways,
  together,     // every GPU sends to its neighbour
  across,       // every GPU sends to the one half the machine away: uplinks are shared
  one_target,   // two GPUs of a switch send to GPUs below one root complex
  two_targets,  // and below two
  staging,
};
[[nodiscard]] const char* name_of(probe_purpose purpose);

struct probe_pair {
  std::uint8_t from;
  std::uint8_t to;
  bool operator==(const probe_pair&) const = default;
};

// Values only, of a fixed size, without padding: it goes through an allgather.
struct probe_order {
  std::uint32_t run;      // 0: nothing is measured, and the rest is zero
  std::uint32_t ranks;    // as many as there are, whoever measures
  std::uint32_t on_host;  // host memory instead of devices
  std::uint32_t pairs;    // used of `alone`
  std::uint32_t around_count;
  std::uint32_t nodes;        // used of `node`
  std::uint32_t has_fan;      // whether fan says something
  std::uint32_t alone_us;     // how long one rate is measured
  std::uint32_t together_us;  // the same where several ranks act at once, who begin at slightly different times
  std::uint32_t round_trips;  // of flags
  std::uint32_t step_ms;      // after which a rank that has not answered is given up
  std::uint32_t start_ms;     // the same for the first answer of a helper, which sets up its device
  std::uint64_t seed;         // of the patterns
  probe_pair alone[probe_most_pairs];
  // One rank of each GPU; each sends to the next.
  std::uint8_t around[probe_most_ranks];
  // 1 for ranks that take part. Of the ranks of one GPU two do: the others' memory is no other memory, and each
  // helper's start holds up those of the same GPU.
  std::uint8_t acts[probe_most_ranks];
  // NUMA nodes whose memory is tried as a bounce buffer.
  std::uint8_t node[probe_most_nodes];
  // Two sources below one switch; two targets below one root complex, and one below another.
  std::uint8_t fan[5];
  std::uint8_t reserved[3];

  // Whether this can be what rank 0 of so many ranks sent: every rank number is one.
  [[nodiscard]] bool plausible(std::uint32_t of_ranks) const;
};
static_assert(std::is_trivially_copyable_v<probe_order>);
static_assert(std::has_unique_object_representations_v<probe_order>);

struct probe_step {
  probe_kind kind;
  probe_purpose purpose;
  std::vector<probe_pair> active;  // from acts towards to; empty: every rank, towards all
  std::uint32_t duration_us = 0;
  std::uint32_t node = 0;  // host_write, host_read: which NUMA node; `to` means nothing

  // What a rank does in it; no_part: nothing.
  static constexpr int no_part = -1, everyone = -2;
  [[nodiscard]] int peer_of(int rank) const;
};
[[nodiscard]] std::vector<probe_step> steps_of(const probe_order& order);

// What has to be known of ranks to order a probe. gpu_of_rank: any numbers, equal for ranks of one GPU.
struct probe_plan_input {
  std::vector<std::uint32_t> gpu_of_rank;
  // Of the graph, where there is one: the vertex of each rank; empty: nothing is known of links.
  const graph* machine = nullptr;
  std::vector<vertex_id> vertex_of_rank;
  std::vector<int> nodes;  // NUMA nodes to try as bounce buffers
  bool on_host = false;
  std::uint64_t seed = 0;
};
// Keeps within probe_budget_us by measuring fewer pairs: then one of each class of path.
[[nodiscard]] probe_order order_probe(const probe_plan_input& in);
inline constexpr std::uint32_t probe_budget_us = 450'000;
// What the steps take if every rank answers at once.
[[nodiscard]] std::uint32_t expected_us(const probe_order& order);

}  // namespace xyl::topo
