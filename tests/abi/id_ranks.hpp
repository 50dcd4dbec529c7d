// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators from unique ids, for tests of the ABI.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "abi/ranks.hpp"

namespace xyl::test {

class environment {
 public:
  environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

// Rank 0's id for everybody.
inline xylUniqueId shared_id(int rank, int ranks, meeting& m) {
  xylUniqueId mine{};
  if (rank == 0) {
    EXPECT_EQ(xylGetUniqueId(&mine), xylSuccess) << xylGetLastError(nullptr);
  }
  std::vector<xylUniqueId> all(static_cast<std::size_t>(ranks));
  EXPECT_EQ(m.allgather(rank)(&mine, all.data(), sizeof mine), 0);
  return all[0];
}

inline void expect_good(const std::vector<process_end>& ends) {
  for (std::size_t i = 0; i < ends.size(); ++i)
    EXPECT_TRUE(ends[i].good()) << "process " << i << ": " << ends[i].text();
}

// Runs body in a process of its own, so that the test's threads and communicators do not stay for later tests that
// fork.
inline void in_a_process(const std::function<void()>& body) {
  expect_good(forked_processes(1, [&](int) { body(); }));
}

// A sum over the ranks, on data that tells ranks and elements apart.
class sum_of_ranks {
 public:
  sum_of_ranks(int ranks, int rank, std::size_t count = 1000) : ranks_(ranks), data_(count) {
    for (std::size_t i = 0; i < count; ++i) data_[i] = rank + static_cast<int>(i);
  }
  xylResult_t call(xylComm_t comm) {
    return xylAllReduce(data_.data(), data_.data(), data_.size(), xylInt32, xylSum, comm, nullptr);
  }
  void expect_right() const {
    for (std::size_t i = 0; i < data_.size(); ++i)
      ASSERT_EQ(data_[i], ranks_ * (ranks_ - 1) / 2 + ranks_ * static_cast<int>(i)) << "element " << i;
  }
  void expect_untouched(int rank) const {
    for (std::size_t i = 0; i < data_.size(); ++i) ASSERT_EQ(data_[i], rank + static_cast<int>(i));
  }

 private:
  int ranks_;
  std::vector<int> data_;
};

inline void expect_sum(xylComm_t comm, int ranks, int rank) {
  sum_of_ranks sum(ranks, rank);
  ASSERT_EQ(sum.call(comm), xylSuccess) << xylGetLastError(comm);
  sum.expect_right();
}

}  // namespace xyl::test
