// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of our own: all signals are blocked in them, since the application's signals are none of their business.
#pragma once

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "base/result.hpp"

namespace xyl {

template <class F>
result start_quiet_thread(F body, std::thread& out) {
  // The thread inherits the mask.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  result started;
  try {
    out = std::thread(std::move(body));
  } catch (const std::system_error& e) {
    started = error(xylSystemError, "cannot start a thread: %s", e.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace xyl
