// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks as processes, for tests. forked_processes() runs a function in N forked children and says how each ended;
// none outlives its limit or its parent. A meeting is the allgather that a launcher would give, over memory that
// the children share; ranks may be processes or threads of them. Fork before any thread is started: use these first
// in a test, with no communicator open in the parent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace xyl::test {

class meeting {
 public:
  explicit meeting(int ranks, std::size_t most_bytes = 1 << 16);
  ~meeting();
  meeting(const meeting&) = delete;

  // Fits peer_group's allgather and, with a context, xylAllgatherFunc_t. Fails (-1) if not all come within 30 s, or
  // after break_up().
  std::function<int(const void*, void*, std::size_t)> allgather(int rank);
  // A barrier; false as above.
  bool wait();
  // Every exchange from now on fails.
  void break_up();
  bool broken() const { return shared_->broken; }

 private:
  struct shared {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> round;
    std::atomic<bool> broken;
  };
  int ranks_;
  std::size_t most_bytes_;
  std::size_t mapped_;
  shared* shared_;
  std::byte* data_;
};

struct process_end {
  int code = -1;  // of exit; -1 if it did not exit by itself
  int signal = 0;
  bool stuck = false;  // was killed at the limit

  bool good() const { return code == 0; }
  std::string text() const;
};

// The children exit with 0, or with 1 if a GoogleTest assertion failed in them.
std::vector<process_end> forked_processes(int count, const std::function<void(int process)>& body,
                                          int limit_ms = 60'000);

// One rank per process.
std::vector<process_end> forked_ranks(int ranks, const std::function<void(int rank, meeting&)>& body,
                                      int limit_ms = 60'000);

// The open descriptors of this process.
int open_descriptors();

// Polls until done() or the limit; whether it was done.
bool eventually(const std::function<bool()>& done, int limit_ms);

}  // namespace xyl::test
