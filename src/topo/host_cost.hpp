// SPDX-License-Identifier: BSD-3-Clause
// What collectives between processes on one machine cost: the model of cost.hpp, where the link between two ranks
// is the way of cache lines from one core to another. A phase takes rounds * flag + bytes * (time of a store, or of
// a load, of such a line); ranks that outnumber processors take turns on them. Rates are a probe's, of a pair of
// ranks or of the worst pair that was measured; without one they follow from two numbers that differ little between
// processors, and say so. Copies inside a core, arithmetic and what caches do not hold are not in it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "topo/plan.hpp"
#include "topo/probe_report.hpp"

namespace xyl::topo {

// What is taken for granted where no probe says better, with reasons.
struct host_constants {
  // A line from the cache of another core: by vendors' tables and public measurements 40 to 100 ns inside a
  // processor, 100 to 200 between two.
  double line_ns = 70;
  double line_across_ns = 150;
  // Lines that a core waits for at the same time: its line fill buffers, 10 to 16 of them.
  double lines_in_flight = 12;
  static constexpr double line_bytes = 64;
  // A flag's way: its line goes to the writer and from there to the reader.
  double flag_lines = 2;
  // A call of the library before and after all waiting.
  double call_us = 0.06;
  // A packet is 16 bytes that carry 8, written and looked at word by word: a few instructions on either side. That
  // is the least that packets take: a line that is looked at while it is being written goes to and fro.
  double packet_bytes_per_byte = 2;
  double packet_word_ns = 1.5;
  // A processor that goes from one process to another.
  double switch_us = 1.5;
  // Reading a peer's buffer through the kernel: entering it, and finding each page of 4 KB.
  double kernel_us = 0.5;
  double kernel_page_ns = 100;
  // Longer messages are cut into chunks, in each of which the ranks meet: reductions, other collectives, and those
  // with a root (selection::defaults() and comm/collectives.cc have the same).
  std::uint64_t reduced_chunk_bytes = 1 << 20;
  std::uint64_t moved_chunk_bytes = 1 << 20;
  std::uint64_t rooted_chunk_bytes = 256 << 10;
};

struct host_ranks {
  std::span<const int> numa_of_rank;    // -1 where unknown
  unsigned processors = 0;              // that the ranks may use, all together; 0: enough
  const probe_report* probe = nullptr;  // of these very ranks, on host memory
  host_constants constants = {};
};

// From one rank to another: GB/s of stores to, and of loads from, lines that they pass on, and one way of a flag.
struct host_route {
  figure write;
  figure read;
  figure flag_us;
};
[[nodiscard]] host_route route_between(const host_ranks& of, std::size_t from, std::size_t to);

// All that hosts do. ring: the order of the ranks. Nothing for one rank.
[[nodiscard]] std::vector<candidate> host_candidates(const host_ranks& of, pattern what, std::span<const int> ring);

}  // namespace xyl::topo
