// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks in one schedule_explorer, with small workspaces: each run begins from the same state.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "proto/thread_machine.hpp"
#include "spaces/schedule_space.hpp"

namespace xyl::test {

// Ranks with workspaces, ready to be run any number of times.
class world {
 public:
  world(int ranks, unsigned lanes) : lanes_(lanes), map_(layout::make(static_cast<unsigned>(ranks), 1, 0, 1)) {
    map_.packet_stride = layout::header_bytes + 8 * sizeof(line);
    map_.bulk_stride = 128;  // eight
    map_.wide_stride = 2 * sizeof(wide_pack);
    map_.wide = map_.packets + 2 * map_.ranks * map_.packet_stride;
    map_.bulk = map_.wide + 2 * map_.ranks * map_.wide_stride;
    map_.messages = map_.bulk + 2 * map_.ranks * map_.bulk_stride;
    map_.bytes = map_.messages + map_.ranks * map_.pair_slots * (layout::header_bytes + map_.pair_chunk);
    map_ = map_.with_one_way(2, 1, 1);
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < ranks; ++r) {
      memory_.emplace_back(map_.bytes / sizeof(flag));
      workspaces.push_back(reinterpret_cast<std::byte*>(memory_.back().data()));
    }
    ranks_.resize(static_cast<unsigned>(ranks));
    for (int r = 0; r < ranks; ++r) {
      at(r).rank = r;
      at(r).lanes = lanes;
      at(r).workspaces = workspaces;
    }
  }

  int ranks() const { return static_cast<int>(ranks_.size()); }
  schedule_rank& at(int r) { return ranks_[static_cast<unsigned>(r)]; }

  void reset() {
    for (auto& memory : memory_) std::memset(memory.data(), 0, map_.bytes);
    for (int r = 0; r < ranks(); ++r) {
      at(r).control(r).call.epoch = epoch_zero;
      at(r).reset();
    }
  }

  template <class Call>
  void fill(Call& c, int r) {
    c.map = decltype(c.map){map_};
    c.rank = r;
    c.ranks = ranks();
    for (int p = 0; p < ranks(); ++p) c.workspace[p] = at(r).workspaces[static_cast<unsigned>(p)];
  }

  // f(space, rank) on every lane; prepare() before each run.
  template <class F>
  schedule_explorer::outcome explore(
      bool merge, F f, std::function<std::string()> verdict, bool go_on = false,
      std::function<void()> prepare = [] {}) {
    schedule_explorer::scenario scenario;
    scenario.fibres = ranks() * static_cast<int>(lanes_);
    scenario.reset = [&] {
      reset();
      prepare();
    };
    scenario.body = [&](int fibre) {
      const int r = fibre / static_cast<int>(lanes_);
      const unsigned lane = static_cast<unsigned>(fibre) % lanes_;
      schedule_space s(explorer_, at(r), lane);
      f(s, r);
    };
    scenario.verdict = std::move(verdict);
    scenario.name = [this](int fibre) {
      return "rank " + std::to_string(fibre / static_cast<int>(lanes_)) + " lane " +
             std::to_string(static_cast<unsigned>(fibre) % lanes_);
    };
    return explorer_.explore(scenario, merge, 200'000, go_on);
  }

 private:
  unsigned lanes_;
  layout map_;
  std::vector<std::vector<flag>> memory_;
  std::vector<schedule_rank> ranks_;
  schedule_explorer explorer_;
};

}  // namespace xyl::test
