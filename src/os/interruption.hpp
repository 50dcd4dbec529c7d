// SPDX-License-Identifier: BSD-3-Clause
//
// A request to stop that also ends a poll(2): waits take its descriptor along. Once made it stays.
#pragma once

#include <sys/eventfd.h>

#include <atomic>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xyl {

class interruption {
 public:
  result create() {
    bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    return bell_ ? result() : system_error("cannot create an event descriptor");
  }
  // From any thread, any number of times.
  void request() {
    // Sequentially consistent, as in requested(): users pair it with a word of their own (see
    // member::begin_making).
    requested_.store(true);
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then it is readable anyway.
    [[maybe_unused]] const ssize_t n = ::write(bell_.get(), &one, sizeof one);
  }
  bool requested() const { return requested_.load(); }
  int fd() const { return bell_.get(); }  // becomes readable

 private:
  unique_fd bell_;
  std::atomic<bool> requested_{false};
};

}  // namespace xyl
