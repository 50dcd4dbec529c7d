// SPDX-License-Identifier: BSD-3-Clause
//
// Peer groups for tests: a small workspace, and ranks as processes or as threads of processes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "peer/peer_group.hpp"
#include "tests/support/forked_ranks.hpp"

namespace xyl::test {

inline layout small_layout(int ranks) { return layout::make(static_cast<std::uint32_t>(ranks), 2, 4096, 8192); }

inline std::unique_ptr<peer_group> make_group(int rank, int ranks, meeting& all, const peer_ways& ways = {}) {
  std::unique_ptr<peer_group> group;
  const result r = peer_group::create(rank, all.allgather(rank), small_layout(ranks), group, ways);
  EXPECT_TRUE(r.ok()) << "rank " << rank << ": " << r.text();
  return group;
}

inline std::uint64_t poison_of(const peer_group& group, int rank) {
  auto& control = *reinterpret_cast<control_block*>(group.workspace(rank));
  return std::atomic_ref(control.poisoned.word).load(std::memory_order_acquire);
}

// `processes` processes with `threads` ranks each; body(rank, ranks, meeting).
template <class F>
std::vector<process_end> mixed_ranks(int processes, int threads, F&& body) {
  const int ranks = processes * threads;
  meeting all(ranks);
  return forked_processes(processes, [&](int process) {
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) running.emplace_back([&, t] { body(process * threads + t, ranks, all); });
    for (std::thread& one : running) one.join();
  });
}

inline void expect_good(const std::vector<process_end>& ends) {
  for (std::size_t i = 0; i < ends.size(); ++i)
    EXPECT_TRUE(ends[i].good()) << "process " << i << ": " << ends[i].text();
}

}  // namespace xyl::test
