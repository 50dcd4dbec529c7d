// SPDX-License-Identifier: BSD-3-Clause
#include "abi/handles.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace xyl {

namespace {

constexpr std::uintptr_t places = 4096;

// Free while `inside` is null.
struct place {
  std::atomic<member*> inside;
  std::atomic<std::uintptr_t> handle;  // the last one that this place was given out under
  unsigned forks;                      // how often this process line had forked when the handle was published
};
std::array<place, places> table;
std::uintptr_t published;  // guarded by lock

// [1: no address of a user's object][number of the handle][index of its place]
constexpr std::uintptr_t marker = ~(~std::uintptr_t{0} >> 1);

std::mutex lock;  // publishing and error texts; resolving takes none
std::array<std::string, places>& texts() {
  // Never destroyed: a thread may still report while the process exits.
  static auto* const all = new std::array<std::string, places>;
  return *all;
}
thread_local std::string text_of_thread;

// Counts forks in the child; asking for the process number at every call would be a system call.
std::atomic<unsigned> forks;
[[maybe_unused]] const int at_fork =
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

place& place_of(xylComm_t handle) { return table[reinterpret_cast<std::uintptr_t>(handle) % places]; }
std::size_t index_of(xylComm_t handle) { return reinterpret_cast<std::uintptr_t>(handle) % places; }

// Acquire: pairs with the release of publish_handle, and shows the handle that belongs to what is inside.
member* inside_of(xylComm_t handle) {
  const place& p = place_of(handle);
  member* const inside = p.inside.load(std::memory_order_acquire);
  return p.handle.load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(handle) ? inside : nullptr;
}

// Whether the handle has a text of its own. A forked child leaves its parent's alone: another thread of the parent
// may have held the lock.
bool has_text(xylComm_t handle) { return inside_of(handle) != nullptr && !is_inherited(handle); }

}  // namespace

xylComm_t publish_handle(std::unique_ptr<member> m) {
  const std::lock_guard guard(lock);
  for (std::uintptr_t at = 0; at < places; ++at) {
    place& p = table[at];
    if (p.inside.load(std::memory_order_relaxed) != nullptr) continue;  // relaxed: only this lock writes it
    const std::uintptr_t number = ++published;
    const std::uintptr_t handle = marker | (number * places & ~marker) | at;
    texts()[at].clear();
    p.forks = forks.load(std::memory_order_relaxed);  // relaxed: a forked child has one thread, which counted
    p.handle.store(handle, std::memory_order_relaxed);
    // Release: a thread that resolves the handle sees the whole member.
    p.inside.store(m.release(), std::memory_order_release);
    return reinterpret_cast<xylComm_t>(handle);
  }
  return nullptr;
}

member* resolve_handle(xylComm_t handle) { return inside_of(handle); }

bool is_inherited(xylComm_t live_handle) {
  return place_of(live_handle).forks != forks.load(std::memory_order_relaxed);  // relaxed: see publish_handle
}

std::unique_ptr<member> withdraw_handle(xylComm_t handle) {
  const std::lock_guard guard(lock);
  if (inside_of(handle) == nullptr) return nullptr;
  // Acquire: see resolve_handle; this thread is about to destroy it.
  return std::unique_ptr<member>(place_of(handle).inside.exchange(nullptr, std::memory_order_acquire));
}

void remember_error(xylComm_t handle, const std::string& text) {
  if (!has_text(handle)) {
    text_of_thread = text;
    return;
  }
  const std::string& name = inside_of(handle)->settings.name;
  const std::lock_guard guard(lock);
  texts()[index_of(handle)] = name.empty() ? text : name + ": " + text;
}

std::string recall_error(xylComm_t handle) {
  if (!has_text(handle)) return text_of_thread;
  const std::lock_guard guard(lock);
  return texts()[index_of(handle)];
}

}  // namespace xyl
