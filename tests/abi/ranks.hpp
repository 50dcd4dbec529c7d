// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators for tests of the ABI: ranks are forked processes, the allgather a meeting of them.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "support/forked_ranks.hpp"
#include "xylem/xylem.h"

namespace xyl::test {

// Whether a text has a part that matters.
inline bool says(const char* text, const char* part) { return std::strstr(text, part) != nullptr; }

class test_communicator {
 public:
  test_communicator(int ranks, int rank, meeting& m) : gather_(m.allgather(rank)) {
    code_ = xylCommInitOob(&comm_, ranks, rank, call, &gather_);
    if (code_ != xylSuccess) text_ = xylGetLastError(nullptr);
  }
  ~test_communicator() { xylCommDestroy(comm_); }
  test_communicator(const test_communicator&) = delete;

  operator xylComm_t() const { return comm_; }
  xylResult_t code() const { return code_; }
  const std::string& text() const { return text_; }
  void destroy() { EXPECT_EQ(xylCommDestroy(std::exchange(comm_, nullptr)), xylSuccess); }

 private:
  using gather = std::function<int(const void*, void*, std::size_t)>;
  static int call(void* context, const void* send, void* recv, std::size_t bytes) {
    return (*static_cast<gather*>(context))(send, recv, bytes);
  }

  gather gather_;
  xylComm_t comm_ = nullptr;
  xylResult_t code_ = xylSuccess;
  std::string text_;
};

// Runs body(rank, communicator) in `ranks` processes and expects all to end well.
inline void with_ranks(int ranks, const std::function<void(int, test_communicator&)>& body, int limit_ms = 60'000) {
  const auto ends = forked_ranks(
      ranks,
      [&](int rank, meeting& m) {
        test_communicator comm(ranks, rank, m);
        ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
        body(rank, comm);
      },
      limit_ms);
  for (int r = 0; r < ranks; ++r) EXPECT_TRUE(ends[r].good()) << "rank " << r << ": " << ends[r].text();
}

}  // namespace xyl::test
