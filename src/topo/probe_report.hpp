// SPDX-License-Identifier: BSD-3-Clause
// What a probe found, in terms of GPUs: made from the answers to all steps, kept in the cache as JSON, put into the
// machine graph as measured figures and vetoes, and turned into findings that a person can act on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "topo/advice.hpp"
#include "topo/graph.hpp"
#include "topo/json_read.hpp"
#include "topo/probe_messages.hpp"
#include "topo/probe_order.hpp"

namespace xyl::topo {

// Of an ordered pair; GB/s and us, 0: not measured. Figures carry data from `from` to `to`.
struct probed_pair {
  std::uint32_t from = 0;  // index into probe_report::gpus; equal: two ranks of one GPU
  std::uint32_t to = 0;
  probe_verdict writes = probe_verdict::untested;  // from writes into the memory of to
  probe_verdict reads = probe_verdict::untested;   // to reads the memory of from
  double push = 0;                                 // host memory: each on lines that the other rank uses in turn
  double pull = 0;
  double flag_us = 0;        // one way
  double push_together = 0;  // while every GPU sent to its neighbour
  double pull_together = 0;
  double push_across = 0;  // while every GPU sent half the machine away
  double pull_across = 0;
  bool operator==(const probed_pair&) const = default;
};

struct probed_staging {
  std::uint32_t gpu = 0;
  std::int32_t node = 0;  // NUMA node of the host memory
  double write = 0;       // GPU to host memory
  double read = 0;
  bool operator==(const probed_staging&) const = default;
};

struct probe_report {
  bool on_host = false;
  bool from_cache = false;
  std::vector<std::string> gpus;  // PCI addresses; on host memory "rank 0", ...
  std::vector<probed_pair> pairs;
  std::vector<probed_staging> staging;
  // Share that is left when two GPUs of one switch send to two root complexes; 0: not measured.
  double write_collapse = 0;
  double read_collapse = 0;
  double both_ways = 0;  // share of its rate alone that the first pair has while the way back is used too
  std::vector<std::string> problems;  // helpers that could not start or did not answer: sentences
  double seconds = 0;                 // that the probe took

  [[nodiscard]] const probed_pair* find(std::uint32_t from, std::uint32_t to) const;
  // Why device memory must not be used by these ranks; "" if it may. All pairs of different GPUs must have been
  // proven.
  [[nodiscard]] std::string veto() const;
  // Whether every link between GPUs of these names is known to be good.
  [[nodiscard]] bool proves(std::span<const std::string> names) const;
  // A report with a veto or a problem is not kept: it may have been a passing trouble.
  [[nodiscard]] bool worth_keeping() const { return problems.empty() && veto().empty(); }
};

// answers: [step][rank], for the steps of the order. gpu_of_rank: index into gpus.
[[nodiscard]] probe_report evaluate(const probe_order& order, std::span<const std::uint32_t> gpu_of_rank,
                                    std::vector<std::string> gpus,
                                    const std::vector<std::vector<probe_answer>>& answers);

// Measured figures and vetoes of GPUs that the graph has; what a user said stays. Pairs that were not measured get
// the figures of their class of path, at less confidence.
void add_probe(const probe_report& report, graph& g);

// What is wrong, by measurement. g: with the report's figures in it.
[[nodiscard]] std::vector<finding> find_probed_advice(const probe_report& report, const graph& g);

[[nodiscard]] json json_of(const probe_report& report);
// Errors (xylInvalidUsage): not what json_of() makes.
[[nodiscard]] result read_probe(const json& value, probe_report& out);

}  // namespace xyl::topo
