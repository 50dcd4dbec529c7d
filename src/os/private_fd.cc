// SPDX-License-Identifier: BSD-3-Clause
#include "os/private_fd.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <set>

namespace xyl {
namespace {

std::mutex the_guard;
// Never destroyed: a thread may still close while the process exits.
std::set<int>& listed() {
  static auto* const all = new std::set<int>;
  return *all;
}

// The lock is held over a fork, so that the child finds the list whole, and its lock in the hands of its own
// thread.
[[maybe_unused]] const int at_fork = ::pthread_atfork([] { the_guard.lock(); }, [] { the_guard.unlock(); },
                                                      [] {
                                                        for (int fd : listed()) ::close(fd);
                                                        listed().clear();
                                                        the_guard.unlock();
                                                      });

}  // namespace

std::mutex& private_fd::guard() { return the_guard; }

void private_fd::list(int fd) {
  const int keep = errno;
  try {
    listed().insert(fd);
  } catch (...) {
    ::close(fd);
    throw;
  }
  errno = keep;
}

void private_fd::reset() noexcept {
  if (fd_ < 0) return;
  const std::lock_guard lock(the_guard);
  if (listed().erase(fd_) != 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace xyl
