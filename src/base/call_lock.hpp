// SPDX-License-Identifier: BSD-3-Clause
//
// A lock for calls that seldom compete: one atomic exchange to take it, a plain store to give it back. A mutex gives
// back with another exchange, for which the processor first completes all stores before it; after a call those are
// stores to lines of another core, a tenth of a microsecond each. Who finds it taken offers the processor to others,
// and after a while sleeps between looks. For std::lock_guard.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>

namespace xyl {

class call_lock {
 public:
  void lock() {
    // Acquire: what the last holder did is seen by this one.
    for (int looks = 0; held_.exchange(true, std::memory_order_acquire); ++looks) {
      constexpr int looks_before_sleeping = 1000;
      constexpr timespec nap = {0, 50'000};
      if (looks < looks_before_sleeping)
        ::sched_yield();
      else
        ::nanosleep(&nap, nullptr);
    }
  }
  // Release: the other side of it.
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace xyl
