// SPDX-License-Identifier: BSD-3-Clause
//
// Ranks in containers: network and process namespaces of their own. Needs the right to make namespaces, else skips.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "peer/peer_group.hpp"
#include "tests/support/peer_ranks.hpp"

namespace xyl {
namespace {

using test::eventually;
using test::expect_good;
using test::make_group;
using test::meeting;
using test::poison_of;

bool can_unshare(int what) {
  return test::forked_processes(1, [what](int) { EXPECT_EQ(::unshare(what), 0); })[0].good();
}

// Both ranks, rank 1 in its namespaces.
void live_and_die(int rank, meeting& all) {
  const auto group = make_group(rank, 2, all);
  ASSERT_NE(group, nullptr);
  EXPECT_FALSE(group->same_process(1 - rank));
  group->workspace(1 - rank)[test::small_layout(2).bytes - 1] = std::byte{5};
  ASSERT_TRUE(all.wait());
  EXPECT_EQ(group->workspace(rank)[test::small_layout(2).bytes - 1], std::byte{5});
  ASSERT_TRUE(all.wait());
  if (rank == 1) ::raise(SIGKILL);
  EXPECT_TRUE(eventually([&] { return poison_of(*group, 0) != 0; }, 1000));
  EXPECT_TRUE(group->dead(1));
  EXPECT_EQ(poison_of(*group, 0), poison::pack(xylRemoteError, 1));
}

TEST(peer_namespace, another_network_is_reached_through_proc) {
  if (::getuid() != 0 || !can_unshare(CLONE_NEWNET)) GTEST_SKIP() << "cannot make a network namespace";
  const auto ends = test::forked_ranks(2, [](int rank, meeting& all) {
    if (rank == 1) {
      ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    }
    live_and_die(rank, all);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

TEST(peer_namespace, another_process_namespace_is_reached_by_the_socket) {
  if (::getuid() != 0 || !can_unshare(CLONE_NEWPID)) GTEST_SKIP() << "cannot make a process namespace";
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    if (rank == 0) return live_and_die(rank, all);
    ASSERT_EQ(::unshare(CLONE_NEWPID), 0);
    const auto ends = test::forked_processes(1, [&](int) {
      EXPECT_EQ(::getpid(), 1);
      // The kernel gives the first process of a namespace no deadly signal from inside: it leaves without
      // departing.
      const auto group = make_group(1, 2, all);
      ASSERT_NE(group, nullptr);
      group->workspace(0)[test::small_layout(2).bytes - 1] = std::byte{5};
      ASSERT_TRUE(all.wait());
      ASSERT_TRUE(all.wait());
      ::_exit(0);
    });
    expect_good(ends);
  }));
}

TEST(peer_namespace, neither_way_is_an_error_that_says_why) {
  if (::getuid() != 0 || !can_unshare(CLONE_NEWPID | CLONE_NEWNET)) GTEST_SKIP() << "cannot make namespaces";
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    const auto refused = [&] {
      std::unique_ptr<peer_group> none;
      const result r = peer_group::create(rank, all.allgather(rank), test::small_layout(2), none);
      EXPECT_EQ(r.code(), xylSystemError);
      EXPECT_NE(r.text().find("network namespaces"), std::string::npos) << r.text();
      EXPECT_NE(r.text().find("different process namespaces"), std::string::npos) << r.text();
    };
    if (rank == 0) return refused();
    ASSERT_EQ(::unshare(CLONE_NEWPID | CLONE_NEWNET), 0);
    expect_good(test::forked_processes(1, [&](int) { refused(); }));
  }));
}

}  // namespace
}  // namespace xyl
