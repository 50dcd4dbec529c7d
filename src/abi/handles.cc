// SPDX-License-Identifier: BSD-3-Clause
#include "abi/handles.hpp"

#include <pthread.h>

#include <array>
#include <mutex>

namespace xyl {

namespace {

constexpr std::size_t places = 4096;
std::array<xylComm, places> table;

std::mutex lock;  // publishing and error texts; resolving takes none
std::array<std::string, places>& texts() {
  // Never destroyed: a thread may still report while the process exits.
  static auto* const all = new std::array<std::string, places>;
  return *all;
}
thread_local std::string text_of_thread;

bool is_place(xylComm_t handle) {
  const auto at = reinterpret_cast<std::uintptr_t>(handle), begin = reinterpret_cast<std::uintptr_t>(table.data());
  return at >= begin && at < begin + sizeof table && (at - begin) % sizeof(xylComm) == 0;
}

// Counts forks in the child; asking for the process number at every call would be a system call.
std::atomic<unsigned> forks;
[[maybe_unused]] const int at_fork =
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

std::size_t index_of(xylComm_t handle) { return static_cast<std::size_t>(handle - table.data()); }

}  // namespace

xylComm_t publish_handle(std::unique_ptr<communicator> c) {
  const std::lock_guard guard(lock);
  for (xylComm& place : table) {
    if (place.inside.load(std::memory_order_relaxed) != nullptr) continue;  // relaxed: only this lock writes it
    texts()[index_of(&place)].clear();
    place.forks = forks.load(std::memory_order_relaxed);  // relaxed: a forked child has one thread, which counted
    // Release: a thread that resolves the handle sees the whole communicator.
    place.inside.store(c.release(), std::memory_order_release);
    return &place;
  }
  return nullptr;
}

communicator* resolve_handle(xylComm_t handle) {
  // Acquire: pairs with the release of publish_handle.
  return is_place(handle) ? handle->inside.load(std::memory_order_acquire) : nullptr;
}

bool is_inherited(xylComm_t live_handle) {
  return live_handle->forks != forks.load(std::memory_order_relaxed);  // relaxed: see publish_handle
}

std::unique_ptr<communicator> withdraw_handle(xylComm_t handle) {
  if (!is_place(handle)) return nullptr;
  const std::lock_guard guard(lock);
  // Acquire: see resolve_handle; this thread is about to destroy it.
  return std::unique_ptr<communicator>(handle->inside.exchange(nullptr, std::memory_order_acquire));
}

void remember_error(xylComm_t handle, const std::string& text) {
  if (resolve_handle(handle) == nullptr) {
    text_of_thread = text;
    return;
  }
  const std::lock_guard guard(lock);
  texts()[index_of(handle)] = text;
}

std::string recall_error(xylComm_t handle) {
  if (resolve_handle(handle) == nullptr) return text_of_thread;
  const std::lock_guard guard(lock);
  return texts()[index_of(handle)];
}

}  // namespace xyl
