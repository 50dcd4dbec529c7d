// SPDX-License-Identifier: BSD-3-Clause
#include "peer/thread_allgather.hpp"

#include <algorithm>
#include <cstring>

namespace xyl {

int thread_allgather::exchange(int rank, const void* mine, void* all, std::size_t bytes) {
  std::unique_lock lock(guard_);
  const int ranks = static_cast<int>(parts_.size());
  const std::uint64_t round = round_;
  part& own = parts_[static_cast<std::size_t>(rank)];
  own.data = static_cast<const std::uint8_t*>(mine);
  own.bytes = bytes;
  if (++come_ == ranks) {
    for (const part& one : parts_) broken_ = broken_ || one.bytes != bytes;
  } else if (std::any_of(parts_.begin(), parts_.end(), [](const part& one) { return one.left; })) {
    broken_ = true;
  }
  changed_.notify_all();
  changed_.wait(lock, [&] { return broken_ || come_ == ranks; });
  if (broken_) return 1;
  auto* at = static_cast<std::uint8_t*>(all);
  for (const part& one : parts_) at = std::copy(one.data, one.data + bytes, at);
  // Nobody's data goes away, and nobody begins the next exchange, before all have read this one.
  if (++read_ == ranks) {
    come_ = read_ = 0;
    ++round_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return round_ != round; });
  return 0;
}

void thread_allgather::leave(int rank) {
  const std::lock_guard lock(guard_);
  parts_[static_cast<std::size_t>(rank)].left = true;
  // Who waits for this rank waits in vain.
  if (come_ > 0 && come_ < static_cast<int>(parts_.size())) broken_ = true;
  changed_.notify_all();
}

}  // namespace xyl
