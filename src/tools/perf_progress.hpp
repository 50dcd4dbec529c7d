// SPDX-License-Identifier: BSD-3-Clause
//
// One line on a terminal that says how far a long sweep is; it is gone when it is done. Silent for the first two
// seconds, and wherever stderr is no terminal.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>

#include "base/clock.hpp"

namespace xyl {

class progress_line {
 public:
  progress_line(std::size_t steps, bool wanted) : steps_(steps), is_wanted_(wanted && ::isatty(STDERR_FILENO)) {}
  ~progress_line() { clear(); }
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  // Shown until the next call of clear() or begin(). step counts from 0.
  void begin(std::size_t step, const std::string& what) {
    if (!is_wanted_ || now_ns() - start_ns_ < 2'000'000'000) return;
    clear();
    std::fprintf(stderr, "[%zu/%zu] %s, %lld s so far", step + 1, steps_, what.c_str(),
                 static_cast<long long>((now_ns() - start_ns_) / 1'000'000'000));
    std::fflush(stderr);
    is_shown_ = true;
  }
  // Before anything else is printed.
  void clear() {
    if (is_shown_) std::fputs("\r\033[K", stderr);
    if (is_shown_) std::fflush(stderr);
    is_shown_ = false;
  }

 private:
  std::size_t steps_;
  bool is_wanted_;
  bool is_shown_ = false;
  std::int64_t start_ns_ = now_ns();
};

}  // namespace xyl
