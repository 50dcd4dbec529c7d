// SPDX-License-Identifier: BSD-3-Clause
//
// What a function of the program's (the allgather of an initialisation) can ask while it waits for other ranks:
// whether they still live, and whether its time is over. Nothing of ours can end a wait of another library's, so
// that the one who waits has to ask. The question comes without a handle, on the thread that called the function:
// hence a place per thread, which holds the innermost call.
#pragma once

#include <cstdint>

#include "base/result.hpp"

namespace xyl {

class peer_group;

struct caller_limits {
  std::int64_t deadline_ns = 600'000'000'000;  // of one call
  std::int64_t warning_ns = 10'000'000'000;    // after how long a line names who is missing; 0: never
};

class caller_wait {
 public:
  // From here to the end of this object the calling thread's questions are about the group.
  caller_wait(const peer_group& group, const caller_limits& limits);
  ~caller_wait();
  caller_wait(const caller_wait&) = delete;

  // What was answered last, if it was no: success as long as waiting had a point.
  const result& verdict() const { return verdict_; }

  // Waits a moment, of the calling thread's time. missing: a rank that is waited for, or -1 if that is not known.
  // Success: go on; xylRemoteError, xylTimeout: the call has to return now; xylInvalidUsage: there is no such call.
  static result moment(int missing);

 private:
  result look(int missing, std::int64_t waited_ns);

  const peer_group& group_;
  const caller_limits limits_;
  const std::int64_t began_ns_;
  std::int64_t left_since_ns_ = 0;  // when the missing rank was first seen to have left
  bool warned_;
  result verdict_;
  caller_wait* const outer_;
};

}  // namespace xyl
