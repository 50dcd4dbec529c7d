// SPDX-License-Identifier: BSD-3-Clause
//
// A descriptor that ends with its process: close-on-exec, as all of ours, and closed in a forked child as well. For
// sockets whose end tells somebody that this process has ended, or that it no longer listens: a child that kept a
// copy would make it look alive.
#pragma once

#include <mutex>
#include <utility>

namespace xyl {

class private_fd {
 public:
  private_fd() = default;
  private_fd(private_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  private_fd& operator=(private_fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~private_fd() { reset(); }

  // open() returns a descriptor, or -1 with errno, which stays; no fork comes between it and the listing. It must
  // not block.
  template <class Open>
  static private_fd from(Open open) {
    const std::lock_guard lock(guard());
    private_fd made;
    made.fd_ = open();
    if (made.fd_ >= 0) list(made.fd_);
    return made;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Closes it. In a forked child, where it is closed already, nothing.
  void reset() noexcept;

 private:
  static std::mutex& guard();
  static void list(int fd);

  int fd_ = -1;
};

}  // namespace xyl
