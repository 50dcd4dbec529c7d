// SPDX-License-Identifier: BSD-3-Clause
//
// A helper program that this process starts, talks to and ends. The two have one socket that keeps message
// boundaries (os/local_socket.hpp), which is the program's standard input: it ends when this process does, and so
// should the program. Nothing else of this process stays open in it but standard output and error. However it ends,
// it is waited for; a signal can only reach the very process that was started, where the kernel has pidfds.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xyl {

// The entries of an environment whose names begin with none of `left_out`.
std::vector<std::string> environment_without(const char* const* environment,
                                             const std::vector<std::string_view>& left_out);

class child_process {
 public:
  child_process() = default;
  child_process(child_process&& other) noexcept;
  child_process& operator=(child_process&& other) noexcept;
  // Kills it if it still runs.
  ~child_process() { kill(); }

  // Errors: the program cannot be started, with its path and why.
  static result start(const std::string& path, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment, child_process& out);

  bool running() const { return process_ > 0; }
  int socket() const { return socket_.get(); }
  // Closes the socket and waits until the program has ended, as it should then; kills it at the deadline. What it
  // exited with, or -1 if it did not exit by itself.
  int finish(deadline until);
  void kill();

 private:
  int reap(bool may_wait);

  pid_t process_ = -1;
  unique_fd handle_;  // pidfd, where there is one
  unique_fd socket_;
};

}  // namespace xyl
