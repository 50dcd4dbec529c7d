// SPDX-License-Identifier: BSD-3-Clause
#include "peer/peer_group.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/support/peer_ranks.hpp"

namespace xyl {
namespace {

using test::expect_good;
using test::make_group;
using test::meeting;
using test::poison_of;

// A word of the bulk area of `owner` that only `writer` writes.
std::uint64_t& word(const peer_group& group, int owner, int writer) {
  const layout map = test::small_layout(group.ranks());
  return *reinterpret_cast<std::uint64_t*>(group.workspace(owner) +
                                           map.bulk_offset(0, static_cast<unsigned>(writer)));
}

// Every rank writes into every workspace, and finds what every rank wrote into its own.
void write_and_verify(const peer_group& group, meeting& all) {
  const int rank = group.rank(), ranks = group.ranks();
  for (int r = 0; r < ranks; ++r) word(group, r, rank) = 1000u * static_cast<unsigned>(rank) + r + 1;
  ASSERT_TRUE(all.wait());
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(word(group, rank, r), 1000u * static_cast<unsigned>(r) + rank + 1);
  ASSERT_TRUE(all.wait());
}

void check_group(int rank, int ranks, meeting& all, const peer_ways& ways = {}) {
  const auto group = make_group(rank, ranks, all, ways);
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(group->rank(), rank);
  EXPECT_EQ(group->ranks(), ranks);
  write_and_verify(*group, all);
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(poison_of(*group, r), 0u);
    EXPECT_FALSE(group->dead(r));
  }
  all.wait();
}

TEST(peer_group, one_two_and_four_processes) {
  for (int ranks : {1, 2, 4})
    expect_good(test::forked_ranks(ranks, [ranks](int rank, meeting& all) { check_group(rank, ranks, all); }));
}

TEST(peer_group, threads_and_processes_mixed) {
  for (int processes : {1, 2, 3})
    expect_good(test::mixed_ranks(processes, 2, [](int rank, int ranks, meeting& all) {
      const auto group = make_group(rank, ranks, all);
      ASSERT_NE(group, nullptr);
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(group->same_process(r), r / 2 == rank / 2);
      write_and_verify(*group, all);
    }));
}

TEST(peer_group, ranks_of_one_process_share_one_mapping) {
  expect_good(test::mixed_ranks(1, 3, [](int rank, int ranks, meeting& all) {
    const auto group = make_group(rank, ranks, all);
    ASSERT_NE(group, nullptr);
    const std::byte* const own = group->workspace(rank);
    std::vector<const std::byte*> owns(static_cast<std::size_t>(ranks));
    ASSERT_TRUE(group->exchange(&own, owns.data(), sizeof own).ok());
    for (int r = 0; r < ranks; ++r) EXPECT_EQ(group->workspace(r), owns[r]);
  }));
}

TEST(peer_group, several_groups_of_one_process_have_their_own_memory) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    const auto first = make_group(rank, 2, all), second = make_group(rank, 2, all);
    ASSERT_TRUE(first && second);
    for (int r : {0, 1}) EXPECT_NE(first->workspace(r), second->workspace(r));
    write_and_verify(*first, all);
    word(*second, rank, rank) = 7;
    EXPECT_NE(word(*first, rank, rank), 7u);
    second->abort(xylRemoteError);
    EXPECT_EQ(poison_of(*first, 0), 0u);
    all.wait();
  }));
}

TEST(peer_group, workspaces_start_zeroed_but_for_the_nonce) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    const auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    const auto* at = reinterpret_cast<const unsigned char*>(group->workspace(rank));
    const std::size_t nonce = offsetof(control_block, identity), bytes = test::small_layout(2).bytes;
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_TRUE(at[i] == 0 || (i >= nonce && i < nonce + 32)) << i;
    all.wait();
  }));
}

TEST(peer_group, exchange_is_an_allgather_and_agree_spreads_errors) {
  expect_good(test::forked_ranks(3, [](int rank, meeting& all) {
    const auto group = make_group(rank, 3, all);
    ASSERT_NE(group, nullptr);
    int numbers[3] = {};
    const int mine = 10 + rank;
    ASSERT_TRUE(group->exchange(&mine, numbers, sizeof mine).ok());
    for (int r = 0; r < 3; ++r) EXPECT_EQ(numbers[r], 10 + r);
    EXPECT_TRUE(group->agree({}).ok());
    const result r = group->agree(rank == 1 ? error(xylUnhandledCudaError, "no device") : result());
    EXPECT_EQ(r.code(), rank == 1 ? xylUnhandledCudaError : xylRemoteError);
    EXPECT_NE(r.text().find("no device"), std::string::npos) << r.text();
    EXPECT_EQ(r.text().rfind("rank 1 (process ", 0) == 0, rank != 1) << r.text();
    all.wait();
  }));
}

TEST(peer_group, a_failing_allgather_is_a_remote_error) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    const auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    all.break_up();
    int mine = 0, numbers[2];
    EXPECT_EQ(group->exchange(&mine, numbers, sizeof mine).code(), xylRemoteError);
    EXPECT_EQ(group->agree({}).code(), xylRemoteError);
    EXPECT_EQ(group->agree(error(xylSystemError, "own")).code(), xylSystemError);
    std::unique_ptr<peer_group> none;
    EXPECT_EQ(peer_group::create(rank, all.allgather(rank), test::small_layout(2), none).code(), xylRemoteError);
    EXPECT_EQ(none, nullptr);
  }));
}

TEST(peer_group, refuses_ranks_out_of_range) {
  std::unique_ptr<peer_group> none;
  meeting all(2);
  for (int rank : {-1, 2})
    EXPECT_EQ(peer_group::create(rank, all.allgather(0), test::small_layout(2), none).code(), xylInvalidArgument);
}

TEST(peer_group, another_version_is_refused_by_all_ranks) {
  expect_good(test::forked_ranks(3, [](int rank, meeting& all) {
    int calls = 0;
    const auto other_version = [&, plain = all.allgather(rank)](const void* mine, void* every, std::size_t bytes) {
      std::vector<std::byte> changed(static_cast<const std::byte*>(mine),
                                     static_cast<const std::byte*>(mine) + bytes);
      if (rank == 1 && calls++ == 0) reinterpret_cast<introduction*>(changed.data())->library += 1;
      return plain(changed.data(), every, bytes);
    };
    std::unique_ptr<peer_group> none;
    const result r = peer_group::create(rank, other_version, test::small_layout(3), none);
    EXPECT_EQ(r.code(), xylInvalidUsage);
    EXPECT_NE(r.text().find("rank 0 runs Xylem"), std::string::npos) << r.text();
    EXPECT_NE(r.text().find("rank 1 runs"), std::string::npos) << r.text();
  }));
}

TEST(peer_group, a_rank_without_memory_fails_on_all_ranks) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    layout map = test::small_layout(2);
    if (rank == 1) map.bytes = std::uint64_t{1} << 50;
    std::unique_ptr<peer_group> none;
    const result r = peer_group::create(rank, all.allgather(rank), map, none);
    EXPECT_EQ(r.code(), rank == 1 ? xylSystemError : xylRemoteError) << r.text();
    EXPECT_NE(r.text().find("shared memory"), std::string::npos) << r.text();
  }));
}

TEST(peer_group, works_through_proc_where_no_socket_reaches) {
  peer_ways ways;
  ways.sockets = false;
  for (int ranks : {2, 4})
    expect_good(test::forked_ranks(ranks, [&](int rank, meeting& all) { check_group(rank, ranks, all, ways); }));
  // Rank 2's way to the lower ranks alone is closed.
  expect_good(test::forked_ranks(
      4, [&](int rank, meeting& all) { check_group(rank, 4, all, rank == 2 ? ways : peer_ways{}); }));
}

TEST(peer_group, an_unreachable_peer_is_named_with_the_reason) {
  expect_good(test::forked_ranks(3, [](int rank, meeting& all) {
    peer_ways ways;
    ways.sockets = ways.proc = rank != 2;
    std::unique_ptr<peer_group> none;
    const result r = peer_group::create(rank, all.allgather(rank), test::small_layout(3), none, ways);
    EXPECT_EQ(r.code(), rank == 2 ? xylSystemError : xylRemoteError);
    EXPECT_NE(r.text().find("ranks 2 and 0 cannot reach"), std::string::npos) << r.text();
    EXPECT_NE(r.text().find("/proc"), std::string::npos) << r.text();
  }));
}

TEST(peer_group, proc_refuses_memory_that_is_not_the_peers) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    // Of the right size and seals, but without the nonce.
    sealed_memory other;
    ASSERT_TRUE(sealed_memory::create(test::small_layout(2).bytes, other).ok());
    int calls = 0;
    const auto lying = [&, plain = all.allgather(rank)](const void* mine, void* every, std::size_t bytes) {
      std::vector<std::byte> changed(static_cast<const std::byte*>(mine),
                                     static_cast<const std::byte*>(mine) + bytes);
      if (rank == 0 && calls++ == 0) reinterpret_cast<introduction*>(changed.data())->memory_fd = other.fd();
      return plain(changed.data(), every, bytes);
    };
    peer_ways ways;
    ways.sockets = false;
    std::unique_ptr<peer_group> none;
    const result r = peer_group::create(rank, lying, test::small_layout(2), none, ways);
    EXPECT_EQ(r.code(), rank == 1 ? xylSystemError : xylRemoteError);
    EXPECT_NE(r.text().find("something else"), std::string::npos) << r.text();
  }));
}

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), ::closedir);
  while (const dirent* one = folder ? ::readdir(folder.get()) : nullptr)
    if (std::strstr(one->d_name, "xyl")) names.insert(one->d_name);
  return names;
}

TEST(peer_group, leaves_nothing_behind) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    const int before = test::open_descriptors();
    for (int i = 0; i < 200; ++i) {
      const auto group = make_group(rank, 2, all);
      ASSERT_NE(group, nullptr);
      EXPECT_EQ(shared_memory_files(), std::set<std::string>{});
    }
    EXPECT_EQ(test::open_descriptors(), before);
  }));
}

TEST(peer_group, all_descriptors_close_on_exec) {
  expect_good(test::forked_ranks(2, [](int rank, meeting& all) {
    bool inherited[256];
    for (int fd = 0; fd < 256; ++fd) inherited[fd] = ::fcntl(fd, F_GETFD) >= 0;
    const auto group = make_group(rank, 2, all);
    ASSERT_NE(group, nullptr);
    int ours = 0;
    for (int fd = 0; fd < 256; ++fd) {
      const int flags = ::fcntl(fd, F_GETFD);
      if (inherited[fd] || flags < 0) continue;
      ++ours;
      EXPECT_NE(flags & FD_CLOEXEC, 0) << fd;
    }
    EXPECT_GT(ours, 0);
    all.wait();
  }));
}

}  // namespace
}  // namespace xyl
