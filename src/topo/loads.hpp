// SPDX-License-Identifier: BSD-3-Clause
// Bytes that each directed edge carries while several GPUs send at once, and what that takes: the slowest edge or
// capacity group decides. Loads are shares of a message (bytes moved per byte of message), so that one table holds
// for every size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topo/fabric.hpp"
#include "topo/method.hpp"

namespace xyl::topo {

struct edge_load {
  std::uint32_t edge = 0;
  double write = 0;  // bytes per byte of message
  double read = 0;
};

class load_table {
 public:
  explicit load_table(const fabric& f);

  // One GPU to another, `bytes` per byte of message.
  void add(const fabric& f, std::uint16_t from_gpu, std::uint16_t to_gpu, double bytes, direction how);

  // ns per byte of message (us per KB would be the same number): the slowest resource's. Where GPUs of one switch
  // write to several root complexes and a collapse is known, that switch's way up is slowed accordingly.
  [[nodiscard]] double time_per_byte(const fabric& f, bool copy_engine) const;
  // What decided time_per_byte, for people: "write GPU 0 -> PCIe switch", "group quadrant 0".
  [[nodiscard]] std::string bottleneck(const fabric& f) const;
  // The most root complexes that GPUs of one switch write to.
  [[nodiscard]] unsigned most_targets() const;
  [[nodiscard]] std::vector<edge_load> loads() const;

 private:
  struct slowest {
    double time = 0;
    std::int64_t edge = -1;
    std::int64_t group = -1;
  };
  [[nodiscard]] slowest find_slowest(const fabric& f, bool copy_engine) const;

  std::vector<double> write_;                    // by edge
  std::vector<double> read_;                     // by edge
  std::vector<double> inside_;                   // by GPU: between ranks on it
  std::vector<double> unrouted_;                 // by GPU: what has no known route
  std::vector<std::vector<vertex_id>> targets_;  // by switch: the root complexes it writes to
  std::vector<std::uint16_t> switch_of_edge_;    // for edges that leave a switch
};

}  // namespace xyl::topo
