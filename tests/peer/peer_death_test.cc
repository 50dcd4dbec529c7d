// SPDX-License-Identifier: BSD-3-Clause
//
// Ends of ranks: killed, departed, aborted, forked.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "peer/peer_group.hpp"
#include "tests/support/peer_ranks.hpp"

namespace xyl {
namespace {

using test::eventually;
using test::expect_good;
using test::make_group;
using test::meeting;
using test::poison_of;

constexpr int promised_ms = 1000;  // from a death to its notice on every other rank
constexpr int quiet_ms = 200;      // long against the milliseconds that a notice takes

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

void expect_death_of(const peer_group& group, int victim) {
  EXPECT_TRUE(eventually([&] { return poison_of(group, group.rank()) != 0; }, promised_ms));
  EXPECT_EQ(poison_of(group, group.rank()), poison::pack(xylRemoteError, victim));
  EXPECT_TRUE(group.dead(victim));
  EXPECT_FALSE(group.departed(victim));
  EXPECT_TRUE(contains(group.describe(victim), "which is gone)")) << group.describe(victim);
  // The memory of the dead is still there.
  std::byte* const theirs = group.workspace(victim);
  theirs[test::small_layout(group.ranks()).bytes - 1] = std::byte{1};
}

void kill_one(int ranks, int victim, const peer_ways& ways) {
  const auto ends = test::forked_ranks(ranks, [&](int rank, meeting& all) {
    const auto group = make_group(rank, ranks, all, ways);
    ASSERT_NE(group, nullptr);
    EXPECT_FALSE(contains(group->describe(victim), "which")) << group->describe(victim);
    ASSERT_TRUE(all.wait());
    if (rank == victim) ::raise(SIGKILL);
    expect_death_of(*group, victim);
  });
  for (int r = 0; r < ranks; ++r) {
    if (r == victim)
      EXPECT_EQ(ends[r].signal, SIGKILL);
    else
      EXPECT_TRUE(ends[r].good()) << "rank " << r << ": " << ends[r].text();
  }
}

TEST(peer_death, a_killed_rank_is_named_by_all_others) {
  for (int ranks : {2, 4})
    for (int victim : {0, ranks - 1}) kill_one(ranks, victim, {});
}

TEST(peer_death, a_killed_rank_is_named_without_a_socket) {
  peer_ways ways;
  ways.sockets = false;
  kill_one(3, 1, ways);
}

TEST(peer_death, all_threads_of_a_killed_process_are_dead) {
  const auto ends = test::mixed_ranks(2, 2, [](int rank, int ranks, meeting& all) {
    const auto group = make_group(rank, ranks, all);
    ASSERT_NE(group, nullptr);
    ASSERT_TRUE(all.wait());
    if (rank == 3) ::raise(SIGKILL);
    if (rank >= 2)
      for (;;) ::pause();
    EXPECT_TRUE(
        eventually([&] { return group->dead(2) && group->dead(3) && poison_of(*group, rank); }, promised_ms));
    const int culprit = poison::culprit(poison_of(*group, rank));
    EXPECT_TRUE(culprit == 2 || culprit == 3) << culprit;
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

TEST(peer_death, a_forked_child_does_not_hide_the_death_of_its_parent) {
  const auto ends = test::forked_ranks(2, [](int rank, meeting& all) {
    const auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    // The child holds copies of all sockets, until rank 0 has seen what it should.
    if (rank == 1 && ::fork() == 0) {
      eventually([&] { return all.broken(); }, 20'000);
      ::_exit(0);
    }
    const unique_fd watchable = open_process(::getpid());
    ASSERT_TRUE(all.wait());
    if (rank == 1) ::raise(SIGKILL);
    if (watchable) expect_death_of(*group, 1);  // without pidfds only the socket could tell
    all.break_up();
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
  EXPECT_EQ(ends[1].signal, SIGKILL);
}

TEST(peer_death, departure_is_not_death) {
  for (bool sockets : {true, false})
    expect_good(test::forked_ranks(3, [sockets](int rank, meeting& all) {
      peer_ways ways;
      ways.sockets = sockets;
      auto group = make_group(rank, 3, all, ways);
      ASSERT_NE(group, nullptr);
      ASSERT_TRUE(all.wait());
      if (rank == 1) {
        group.reset();
        return;  // and the process ends
      }
      EXPECT_TRUE(eventually([&] { return group->departed(1); }, promised_ms));
      ::usleep(quiet_ms * 1000);
      EXPECT_EQ(poison_of(*group, rank), 0u);
      EXPECT_FALSE(group->dead(1));
      EXPECT_TRUE(contains(group->describe(1), "which has left)")) << group->describe(1);
      group->workspace(1)[0] = std::byte{1};
    }));
}

TEST(peer_death, abort_reaches_every_rank_and_the_first_reason_stays) {
  for (bool sockets : {true, false})
    expect_good(test::mixed_ranks(2, 2, [sockets](int rank, int ranks, meeting& all) {
      peer_ways ways;
      ways.sockets = sockets;
      auto group = make_group(rank, ranks, all, ways);
      ASSERT_NE(group, nullptr);
      ASSERT_TRUE(all.wait());
      if (rank == 2) {
        group->abort(xylRemoteError);
        group->abort(xylTimeout);
        std::thread([&] { group->abort(xylSystemError); }).join();
      }
      EXPECT_TRUE(eventually([&] { return poison_of(*group, rank) != 0; }, promised_ms));
      EXPECT_EQ(poison_of(*group, rank), poison::pack(xylRemoteError, 2));
      EXPECT_TRUE(contains(group->describe(2), "which aborted)")) << group->describe(2);
      ASSERT_TRUE(all.wait());
      if (rank == 0) group->abort(xylTimeout);
      ASSERT_TRUE(all.wait());
      EXPECT_EQ(poison_of(*group, rank), poison::pack(xylRemoteError, 2));
    }));
}

TEST(peer_death, a_stopped_peer_holds_up_nobodys_departure) {
  const auto ends = test::forked_ranks(2, [](int rank, meeting& all) {
    auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    const pid_t mine = ::getpid();
    pid_t pids[2];
    ASSERT_TRUE(group->exchange(&mine, pids, sizeof mine).ok());
    if (rank == 1) {
      ::raise(SIGSTOP);
      EXPECT_TRUE(eventually([&] { return group->departed(0); }, promised_ms));
      ::usleep(quiet_ms * 1000);
      EXPECT_EQ(poison_of(*group, 1), 0u);
      return;
    }
    // Siblings cannot wait for each other: long enough for the other to have stopped.
    ::usleep(quiet_ms * 1000);
    const std::int64_t before = now_ns();
    group.reset();
    EXPECT_LT(now_ns() - before, 5'000'000'000);
    ::kill(pids[1], SIGCONT);
  });
  expect_good(ends);
}

TEST(peer_death, a_forked_child_is_refused_and_leaves_its_parent_unharmed) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      std::unique_ptr<peer_group> other;
      const auto alone = [](const void*, void*, std::size_t) { return -1; };
      result refused = peer_group::create(0, alone, test::small_layout(2), other);
      group->abort(xylRemoteError);
      group.reset();
      ::_exit(refused.ok() || other ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_TRUE(all.wait());
    ::usleep(quiet_ms * 1000);
    for (int r : {0, 1}) {
      EXPECT_EQ(poison_of(*group, r), 0u);
      EXPECT_FALSE(group->departed(r));
    }
    EXPECT_TRUE(group->agree({}).ok());
    // The parent goes on, with new groups too.
    EXPECT_NE(make_group(rank, 2, all), nullptr);
    ASSERT_TRUE(all.wait());
  }));
}

TEST(peer_death, the_refusal_of_a_forked_child_reaches_all_ranks) {
  meeting before(1), all(2);
  // Process 0 has a communicator when it forks; its child is rank 0 of another one.
  expect_good(test::forked_processes(2, [&](int process) {
    if (process == 1) {
      std::unique_ptr<peer_group> none;
      const result r = peer_group::create(1, all.allgather(1), test::small_layout(2), none);
      EXPECT_EQ(r.code(), xylRemoteError);
      EXPECT_TRUE(contains(r.text(), "was forked")) << r.text();
      return;
    }
    std::shared_ptr<service> running;
    ASSERT_TRUE(service::acquire(running).ok());
    expect_good(test::forked_processes(1, [&](int) {
      std::unique_ptr<peer_group> none;
      const result r = peer_group::create(0, all.allgather(0), test::small_layout(2), none);
      EXPECT_EQ(r.code(), xylInvalidUsage);
      EXPECT_TRUE(contains(r.text(), "was forked")) << r.text();
    }));
  }));
}

}  // namespace
}  // namespace xyl
