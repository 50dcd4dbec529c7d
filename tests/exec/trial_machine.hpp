// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as threads that try sync paths together: a workspace for each, and attempts as a device side makes them.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "exec/device_trial.hpp"
#include "spaces/trial_thread_space.hpp"

namespace xyl::test {

class trial_machine {
 public:
  trial_machine(int ranks, unsigned lanes, const path_faults& faults = {})
      : map_(layout::make(static_cast<unsigned>(ranks), 2, 1024, 4096)), lanes_(lanes), faults_(faults) {
    for (int r = 0; r < ranks; ++r) {
      memory_.emplace_back(static_cast<std::byte*>(::operator new (map_.bytes, std::align_val_t{4096})));
      std::memset(memory_.back().get(), 0, map_.bytes);
    }
  }
  int ranks() const { return static_cast<int>(memory_.size()); }

  // On a thread of that rank: all launches of a plan, one after the other.
  trial_finding attempt(int rank, const trial_plan& plan) {
    trial_order order;
    order.rank = rank;
    order.ranks = ranks();
    order.map = map_;
    for (int r = 0; r < ranks(); ++r) order.workspace[r] = memory_[static_cast<std::size_t>(r)].get();
    trial_block block(lanes_);
    auto& state = *reinterpret_cast<trial_state*>(order.workspace[rank] + map_.trial_offset());
    state.plan = plan;
    std::vector<std::thread> lanes;
    for (unsigned l = 0; l < lanes_; ++l)
      lanes.emplace_back([&, l] {
        for (std::uint32_t launch = 0; launch < trial_order::most_launches; ++launch) {
          trial_order mine = order;
          mine.is_first = launch == 0;
          trial_thread_space space(mine, block, l, faults_);
          sync_trial(space, mine).run();
          block.barrier.arrive_and_wait();  // a launch ends with all its lanes
        }
      });
    for (std::thread& lane : lanes) lane.join();
    return finding_of(state, plan);
  }

  // f(rank) on a thread for each rank.
  template <class F>
  void on_all_ranks(F f) {
    std::vector<std::thread> all;
    for (int r = 0; r < ranks(); ++r) all.emplace_back([&f, r] { f(r); });
    for (std::thread& rank : all) rank.join();
  }

 private:
  struct deleter {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{4096}); }
  };
  const layout map_;
  const unsigned lanes_;
  const path_faults faults_;
  std::vector<std::unique_ptr<std::byte, deleter>> memory_;
};

// An allgather of threads.
class meeting_point {
 public:
  explicit meeting_point(int ranks) : ranks_(ranks) {}

  void exchange(int rank, const void* mine, void* all, std::size_t bytes) {
    std::unique_lock guard(lock_);
    if (room_.size() < bytes * static_cast<std::size_t>(ranks_))
      room_.resize(bytes * static_cast<std::size_t>(ranks_));
    std::memcpy(room_.data() + bytes * static_cast<std::size_t>(rank), mine, bytes);
    meet(guard);
    std::memcpy(all, room_.data(), bytes * static_cast<std::size_t>(ranks_));
    meet(guard);
  }

 private:
  void meet(std::unique_lock<std::mutex>& guard) {
    const std::uint64_t turn = turn_;
    if (++come_ == ranks_) {
      come_ = 0;
      ++turn_;
      changed_.notify_all();
    } else {
      changed_.wait(guard, [&] { return turn_ != turn; });
    }
  }
  const int ranks_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::byte> room_;
  int come_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace xyl::test
