// SPDX-License-Identifier: BSD-3-Clause
#include "comm/together.hpp"

#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "os/quiet_thread.hpp"

namespace xyl {
namespace {

struct helper {
  std::mutex guard;
  std::condition_variable changed;
  const std::function<void()>* work = nullptr;

  void give(const std::function<void()>& what) {
    {
      const std::lock_guard lock(guard);
      work = &what;
    }
    changed.notify_all();
  }
  void wait_until_done() {
    std::unique_lock lock(guard);
    changed.wait(lock, [this] { return work == nullptr; });
  }
  void run() {
    std::unique_lock lock(guard);
    for (;;) {
      changed.wait(lock, [this] { return work != nullptr; });
      const std::function<void()>* const mine = work;
      lock.unlock();
      (*mine)();
      lock.lock();
      work = nullptr;
      changed.notify_all();
    }
  }
};

// The helpers that have nothing to do. Never destroyed, as the threads are not: they sleep when the process exits.
struct idle_helpers {
  std::mutex guard;
  std::vector<helper*> all;
};
idle_helpers& idle() {
  static auto* const the = new idle_helpers;
  return *the;
}

// The lock is held over a fork; the parent's helpers do not exist in the child.
[[maybe_unused]] const int at_fork = ::pthread_atfork([] { idle().guard.lock(); }, [] { idle().guard.unlock(); },
                                                      [] {
                                                        idle().all.clear();
                                                        idle().guard.unlock();
                                                      });

result hire(std::size_t count, std::vector<helper*>& out) {
  {
    const std::lock_guard lock(idle().guard);
    while (out.size() < count && !idle().all.empty()) {
      out.push_back(idle().all.back());
      idle().all.pop_back();
    }
  }
  while (out.size() < count) {
    auto fresh = std::make_unique<helper>();
    std::thread thread;
    XYL_TRY(start_quiet_thread([h = fresh.get()] { h->run(); }, thread));
    ::pthread_setname_np(thread.native_handle(), "xylem-group");
    thread.detach();
    out.push_back(fresh.release());
  }
  return {};
}

void dismiss(const std::vector<helper*>& these) {
  const std::lock_guard lock(idle().guard);
  for (helper* one : these) idle().all.push_back(one);
}

}  // namespace

result run_together(std::span<const std::function<void()>> all) {
  if (all.empty()) return {};
  std::vector<helper*> helpers;
  helpers.reserve(all.size());
  {
    // Room for dismiss(), which must not fail.
    const std::lock_guard lock(idle().guard);
    idle().all.reserve(idle().all.size() + all.size());
  }
  result hired = hire(all.size() - 1, helpers);
  if (hired.ok()) {
    for (std::size_t i = 1; i < all.size(); ++i) helpers[i - 1]->give(all[i]);
    all[0]();
    for (helper* one : helpers) one->wait_until_done();
  }
  dismiss(helpers);
  return hired;
}

}  // namespace xyl
