// SPDX-License-Identifier: BSD-3-Clause
#include "peer/reading_proof.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "tests/support/peer_ranks.hpp"

namespace xyl {
namespace {

using test::meeting;

// What a seccomp filter or Yama's ptrace_scope answer.
ssize_t denied(std::int64_t, void*, std::uint64_t, std::size_t) {
  errno = EPERM;
  return -1;
}
ssize_t something_else(std::int64_t, void* to, std::uint64_t, std::size_t bytes) {
  std::memset(to, 0x77, bytes);
  return static_cast<ssize_t>(bytes);
}
ssize_t short_by_one(std::int64_t process, void* to, std::uint64_t address, std::size_t bytes) {
  return read_process_memory(process, to, address, bytes - 1);
}

void expect_verdict(int ranks, int odd_rank, process_reader odd_reader, const char* why_not) {
  test::expect_good(test::forked_ranks(ranks, [&](int rank, meeting& all) {
    const auto group = test::make_group(rank, ranks, all);
    ASSERT_NE(group, nullptr);
    reading_proof proof(ranks);
    ASSERT_TRUE(proof.attempt(*group, rank == odd_rank ? odd_reader : read_process_memory).ok());
    EXPECT_EQ(proof.allowed(), why_not == nullptr);
    EXPECT_EQ(proof.why_not(), why_not != nullptr ? why_not : "");
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(proof.processes()[static_cast<std::size_t>(r)], group->process_number(r));
    all.wait();
  }));
}

bool reading_works_here() {
  int ours = 5, copy = 0;
  return read_process_memory(::getpid(), &copy, reinterpret_cast<std::uintptr_t>(&ours), sizeof ours) ==
             sizeof ours &&
         copy == 5;
}

TEST(reading_proof, is_given_where_every_rank_can_read) {
  if (!reading_works_here()) GTEST_SKIP() << "this system does not let processes read each other";
  for (const int ranks : {2, 4}) expect_verdict(ranks, -1, nullptr, nullptr);
}

TEST(reading_proof, of_one_rank_that_may_not_read_fails_on_all_ranks) {
  if (!reading_works_here()) GTEST_SKIP() << "this system does not let processes read each other";
  expect_verdict(3, 2, denied, "rank 2 cannot read the memory of rank 0: Operation not permitted");
  expect_verdict(3, 0, something_else, "rank 0 cannot read the memory of rank 1: it finds something else there");
  expect_verdict(2, 1, short_by_one, "rank 1 cannot read the memory of rank 0: it finds something else there");
}

TEST(process_memory, that_is_not_there_is_an_error_and_no_crash) {
  char byte;
  EXPECT_EQ(read_process_memory(::getpid(), &byte, 16, 1), -1);
  EXPECT_NE(errno, 0);
}

}  // namespace
}  // namespace xyl
