// SPDX-License-Identifier: BSD-3-Clause
#include "comm/member.hpp"

#include <utility>

#include "base/out_of_memory.hpp"
#include "os/quiet_thread.hpp"

namespace xyl {

member::~member() {
  {
    std::unique_lock lock(guard_);
    released_.wait(lock, [this] { return held_ == 0; });
  }
  if (worker_.joinable()) {
    if (progress() == xylInProgress && made_ == nullptr) abort();
    worker_.join();
  }
  delete made_.load();
}

result member::make(const making& how) {
  std::unique_ptr<communicator> made;
  XYL_TRY(how(nullptr, made));
  communicator* const whole = made.release();
  made_.store(whole, std::memory_order_release);
  ready_.store(whole, std::memory_order_release);  // release: see ready()
  return {};
}

result member::begin_making(making how) {
  XYL_TRY(stop_.create());
  return begin([this, how = std::move(how)] {
    std::unique_ptr<communicator> made;
    XYL_TRY(how(&stop_, made));
    made_.store(made.release());
    // An abort that came too late to be seen by `how`, and too early to see the communicator. The order of both
    // sides, each of which writes its own word before it reads the other's, lets one of them see the other; hence
    // the default, sequentially consistent, here and there.
    if (stop_.requested() && made_.load() != nullptr) made_.load()->abort();
    return result();
  });
}

result member::occupy() {
  const std::lock_guard lock(guard_);
  if (progress() == xylInProgress)
    return error(xylInvalidUsage, "the communicator is still busy with an earlier nonblocking call");
  progress_.store(xylInProgress);
  ready_.store(nullptr);
  return {};
}

void member::vacate() { finish({}); }

result member::begin(work what) {
  XYL_TRY(occupy());
  // The thread of earlier work is at its end.
  if (worker_.joinable()) worker_.join();
  result started =
      start_quiet_thread([this, what = std::move(what)] { finish(without_exceptions(what)); }, worker_);
  if (!started.ok()) vacate();
  return started;
}

void member::finish(result r) {
  {
    const std::lock_guard lock(guard_);
    text_ = r.text();
  }
  // release: whoever finds that it is over finds the communicator, and the text.
  if (r.ok() || made_.load() != nullptr) ready_.store(made_.load(), std::memory_order_release);
  progress_.store(r.code(), std::memory_order_release);
}

std::shared_ptr<void> member::hold() {
  {
    const std::lock_guard lock(guard_);
    ++held_;
  }
  // If this throws, it has called the function.
  return std::shared_ptr<void>(this, [](void* of) {
    auto* const self = static_cast<member*>(of);
    const std::lock_guard lock(self->guard_);
    --self->held_;
    // Under the lock: the member may be gone right after it.
    self->released_.notify_all();
  });
}

std::string member::text() const {
  const std::lock_guard lock(guard_);
  return text_;
}

void member::abort() {
  if (progress() == xylInProgress && stop_.fd() >= 0) stop_.request();
  if (communicator* const whole = made_.load()) whole->abort();
}

}  // namespace xyl
