// SPDX-License-Identifier: BSD-3-Clause
//
// Monotonic time and deadlines, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace xyl {

inline std::int64_t now_ns() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// A point in time that may lie in the past; default constructed it never comes.
class deadline {
 public:
  deadline() = default;
  static deadline in_ns(std::int64_t ns) { return deadline(now_ns() + ns); }
  static deadline in_ms(std::int64_t ms) { return in_ns(ms * 1'000'000); }

  bool passed() const { return at_ != never && now_ns() >= at_; }
  // What is left, for poll(2): -1 if it never comes, else at least 0, rounded up.
  int left_ms() const {
    if (at_ == never) return -1;
    const std::int64_t left = at_ - now_ns();
    return left <= 0 ? 0 : static_cast<int>((left + 999'999) / 1'000'000);
  }

 private:
  static constexpr std::int64_t never = INT64_MAX;
  explicit deadline(std::int64_t at) : at_(at) {}
  std::int64_t at_ = never;
};

}  // namespace xyl
