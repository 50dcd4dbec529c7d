// SPDX-License-Identifier: BSD-3-Clause
//
// An allgather among threads of one process, for ranks that are all made by one call. A rank that leaves makes the
// exchanges of the others fail instead of wait.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace xyl {

class thread_allgather {
 public:
  explicit thread_allgather(int ranks) : parts_(static_cast<std::size_t>(ranks)) {}

  // 0; or not, when the ranks bring different sizes, or one has left.
  int exchange(int rank, const void* mine, void* all, std::size_t bytes);
  // This rank comes to no further exchange.
  void leave(int rank);

 private:
  struct part {
    const std::uint8_t* data = nullptr;
    std::size_t bytes = 0;
    bool left = false;
  };
  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<part> parts_;
  int come_ = 0;
  int read_ = 0;
  std::uint64_t round_ = 0;  // exchanges that all have read
  bool broken_ = false;
};

}  // namespace xyl
