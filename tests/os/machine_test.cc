// SPDX-License-Identifier: BSD-3-Clause
#include "os/machine.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/forked_ranks.hpp"

namespace xyl {
namespace {

TEST(machine, a_forked_process_has_its_own_token) {
  process_token parent, again;
  ASSERT_TRUE(current_process(parent).ok());
  ASSERT_TRUE(current_process(again).ok());
  EXPECT_EQ(parent, again);
  const auto ends = test::forked_processes(1, [&](int) {
    process_token child, child_again;
    ASSERT_TRUE(current_process(child).ok());
    ASSERT_TRUE(current_process(child_again).ok());
    EXPECT_NE(child, parent);
    EXPECT_EQ(child, child_again);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

TEST(machine, processes_of_one_machine_share_the_boot_and_the_namespace) {
  boot_identity parent;
  ASSERT_TRUE(current_boot(parent).ok());
  EXPECT_EQ(std::strlen(parent.data()), 36u);
  const std::uint64_t space = process_namespace();
  const auto ends = test::forked_processes(1, [&](int) {
    boot_identity child;
    ASSERT_TRUE(current_boot(child).ok());
    EXPECT_EQ(child, parent);
    EXPECT_EQ(process_namespace(), space);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

TEST(machine, random_bytes_differ) {
  std::uint8_t a[32] = {}, b[32] = {};
  ASSERT_TRUE(fill_random(a, sizeof a).ok());
  ASSERT_TRUE(fill_random(b, sizeof b).ok());
  EXPECT_NE(std::memcmp(a, b, sizeof a), 0);
}

TEST(machine, a_process_can_be_watched) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const unique_fd process = open_process(child);
  if (!process) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    GTEST_SKIP() << "this kernel or container allows no pidfd";
  }
  pollfd one{process.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, 0), 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::poll(&one, 1, 10'000), 1);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(open_process(child)) << "of a process that is no more";
}

}  // namespace
}  // namespace xyl
