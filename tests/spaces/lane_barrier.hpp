// SPDX-License-Identifier: BSD-3-Clause
//
// A reusable barrier for a few threads: what each wrote before it is visible to all after it. Made of plain C++
// atomics with release and acquire, which ThreadSanitizer understands; it yields, because tests have more threads
// than cores.
#pragma once

#include <sched.h>

#include <atomic>

namespace xyl {

class lane_barrier {
 public:
  explicit lane_barrier(unsigned parties) : parties_(parties) {}
  lane_barrier(const lane_barrier&) = delete;
  lane_barrier& operator=(const lane_barrier&) = delete;

  void arrive_and_wait() {
    // Relaxed: this thread's last wait has already acquired this value.
    const unsigned mine = generation_.load(std::memory_order_relaxed);
    // Release: hands this thread's writes to the last one. Acquire: the last one receives them all.
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
      arrived_.store(0, std::memory_order_relaxed);  // ordered before the next arrivals by the store below
      generation_.store(mine + 1, std::memory_order_release);  // hands on what the last one received
    } else {
      while (generation_.load(std::memory_order_acquire) == mine) sched_yield();
    }
  }

 private:
  const unsigned parties_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> generation_{0};
};

}  // namespace xyl
