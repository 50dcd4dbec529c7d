// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators made from a unique id, as a program sees them: ranks as processes and as threads, and what the
// ranks read when they do not fit together or do not come.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

int threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  return -1;
}

class id_of : public testing::TestWithParam<int> {};

TEST_P(id_of, forked_ranks_makes_their_communicator) {
  const int ranks = GetParam();
  expect_good(forked_ranks(ranks, [&](int rank, meeting& m) {
    const int open_before = open_descriptors();
    const int threads_before = threads_of_this_process();
    const xylUniqueId id = shared_id(rank, ranks, m);
    xylComm_t comm = nullptr;
    ASSERT_EQ(xylCommInitRank(&comm, ranks, id, rank), xylSuccess) << xylGetLastError(nullptr);
    int count = 0, number = -1;
    EXPECT_EQ(xylCommCount(comm, &count), xylSuccess);
    EXPECT_EQ(xylCommUserRank(comm, &number), xylSuccess);
    EXPECT_EQ(count, ranks);
    EXPECT_EQ(number, rank);
    expect_sum(comm, ranks, rank);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
    // Nothing stays: neither the thread that served the id nor its sockets.
#ifndef __SANITIZE_THREAD__  // starts a thread of its own
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() == threads_before; }, 10'000));
#else
    static_cast<void>(threads_before);
#endif
    EXPECT_TRUE(eventually([&] { return open_descriptors() == open_before; }, 10'000));
  }));
}

INSTANTIATE_TEST_SUITE_P(ranks, id_of, testing::Values(1, 2, 4, 16));

TEST(unique_id, makes_a_communicator_of_threads) {
  constexpr int ranks = 4;
  expect_good(forked_processes(1, [&](int) {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess) << xylGetLastError(nullptr);
    std::vector<std::thread> running;
    for (int rank = 0; rank < ranks; ++rank)
      running.emplace_back([&, rank] {
        xylComm_t comm = nullptr;
        ASSERT_EQ(xylCommInitRank(&comm, ranks, id, rank), xylSuccess) << xylGetLastError(nullptr);
        expect_sum(comm, ranks, rank);
        EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
      });
    for (std::thread& one : running) one.join();
  }));
}

TEST(unique_id, of_a_process_that_forked_the_ranks_works) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads after a fork with threads";
#endif
  expect_good(forked_processes(1, [&](int) {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess) << xylGetLastError(nullptr);
    for (const process_end& end : forked_processes(3, [&](int rank) {
           xylComm_t comm = nullptr;
           ASSERT_EQ(xylCommInitRank(&comm, 3, id, rank), xylSuccess) << xylGetLastError(nullptr);
           expect_sum(comm, 3, rank);
           EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
         }))
      EXPECT_TRUE(end.good()) << end.text();
  }));
}

TEST(unique_id, two_at_a_time_make_two_communicators) {
  expect_good(forked_ranks(2, [&](int rank, meeting& m) {
    const xylUniqueId one = shared_id(rank, 2, m), two = shared_id(rank, 2, m);
    EXPECT_NE(std::memcmp(&one, &two, sizeof one), 0);
    xylComm_t second = nullptr, first = nullptr;
    ASSERT_EQ(xylCommInitRank(&second, 2, two, 1 - rank), xylSuccess) << xylGetLastError(nullptr);
    ASSERT_EQ(xylCommInitRank(&first, 2, one, rank), xylSuccess) << xylGetLastError(nullptr);
    expect_sum(first, 2, rank);
    expect_sum(second, 2, 1 - rank);
    EXPECT_EQ(xylCommDestroy(first), xylSuccess);
    EXPECT_EQ(xylCommDestroy(second), xylSuccess);
  }));
}

// What xylCommInitRank says, in how long.
struct failure {
  xylResult_t code;
  std::string text;
  std::int64_t took_ns;
};

failure failed_init(const xylUniqueId& id, int ranks, int rank) {
  const std::int64_t began = now_ns();
  xylComm_t comm = reinterpret_cast<xylComm_t>(1);
  const xylResult_t code = xylCommInitRank(&comm, ranks, id, rank);
  EXPECT_EQ(comm, nullptr);
  return {code, xylGetLastError(nullptr), now_ns() - began};
}

TEST(unique_id, that_is_damaged_is_refused_at_once) {
  expect_good(forked_processes(1, [&](int) {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    for (std::size_t at = 8; at < sizeof id.internal; ++at) {
      xylUniqueId other = id;
      other.internal[at] = static_cast<char>(other.internal[at] ^ 0x10);
      const failure f = failed_init(other, 2, 0);
      ASSERT_EQ(f.code, xylInvalidArgument) << at << ": " << f.text;
      ASSERT_TRUE(says(f.text.c_str(), "damaged")) << f.text;
    }
    xylUniqueId cut = id;
    std::memset(cut.internal + 64, 0, 64);
    EXPECT_TRUE(says(failed_init(cut, 2, 0).text.c_str(), "damaged"));
    EXPECT_TRUE(says(failed_init(xylUniqueId{}, 2, 0).text.c_str(), "all zeros"));
    xylUniqueId foreign;
    std::memset(&foreign, 'N', sizeof foreign);
    EXPECT_TRUE(says(failed_init(foreign, 2, 0).text.c_str(), "was not made by"));
    EXPECT_EQ(failed_init(foreign, 2, 0).code, xylInvalidArgument);
  }));
}

TEST(unique_id, of_a_process_that_has_ended_is_refused_within_a_second) {
  int carried[2];
  ASSERT_EQ(::pipe(carried), 0);
  const auto made = forked_processes(1, [&](int) {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    ASSERT_EQ(::write(carried[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  });
  ASSERT_TRUE(made[0].good()) << made[0].text();
  xylUniqueId id;
  ASSERT_EQ(::read(carried[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
  const failure f = failed_init(id, 2, 0);
  EXPECT_EQ(f.code, xylRemoteError);
  EXPECT_LT(f.took_ns, 1'000'000'000);
  EXPECT_TRUE(says(f.text.c_str(), "refused") && says(f.text.c_str(), "has ended")) << f.text;
  ::close(carried[0]);
  ::close(carried[1]);
}

TEST(unique_id, that_all_ranks_have_used_is_refused_within_a_second) {
  expect_good(forked_processes(1, [&](int) {
    xylUniqueId id;
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess);
    xylComm_t comm = nullptr;
    ASSERT_EQ(xylCommInitRank(&comm, 1, id, 0), xylSuccess) << xylGetLastError(nullptr);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
    const failure f = failed_init(id, 1, 0);
    EXPECT_EQ(f.code, xylRemoteError);
    EXPECT_LT(f.took_ns, 1'000'000'000);
    EXPECT_TRUE(says(f.text.c_str(), "every communicator needs an id of its own")) << f.text;
  }));
}

TEST(unique_id, with_a_rank_twice_is_invalid_usage_that_names_both_processes) {
  expect_good(forked_ranks(3, [&](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 3, m);
    pid_t own = ::getpid(), all[3];
    ASSERT_EQ(m.allgather(rank)(&own, all, sizeof own), 0);
    const failure f = failed_init(id, 3, rank == 2 ? 1 : rank);
    EXPECT_EQ(f.code, xylInvalidUsage);
    EXPECT_TRUE(says(f.text.c_str(), "rank 1 came twice")) << f.text;
    for (int r : {1, 2}) EXPECT_TRUE(says(f.text.c_str(), ("process " + std::to_string(all[r])).c_str())) << f.text;
    EXPECT_LT(f.took_ns, 5'000'000'000);
    m.wait();
  }));
}

// Whichever number comes first: the server ended when as many ranks as the first had said were told.
TEST(unique_id, with_different_numbers_of_ranks_is_invalid_usage_for_all_also_for_who_comes_later) {
  for (const int first : {0, 1})
    expect_good(forked_ranks(3, [&](int rank, meeting& m) {
      const xylUniqueId id = shared_id(rank, 3, m);
      if (rank != first) ::usleep(rank == 2 ? 300'000 : 100'000);
      const failure f = failed_init(id, rank == 1 ? 2 : 3, rank);
      EXPECT_EQ(f.code, xylInvalidUsage);
      EXPECT_TRUE(says(f.text.c_str(), "as one of 2") && says(f.text.c_str(), "as one of 3")) << f.text;
      m.wait();
    }));
}

// Also where the others are patient: who could not connect does not come any more.
TEST(unique_id, of_a_process_that_has_no_descriptors_left_is_an_error_that_says_so) {
  for (const bool patient : {false, true}) {
    const environment soon(patient ? "XYLEM_CONNECT_TIMEOUT" : "XYLEM_TIMEOUT", "2");
    expect_good(forked_ranks(2, [&](int rank, meeting& m) {
      const xylUniqueId id = shared_id(rank, 2, m);
      if (rank == 1) {
        m.wait();
        EXPECT_NE(failed_init(id, 2, 1).code, xylSuccess);
        m.wait();
        return;
      }
      failure f{};
      std::thread first([&] { f = failed_init(id, 2, 0); });
      ::usleep(500'000);  // until it waits for rank 1
      rlimit whole, none;
      ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
      none = whole;
      const int next = ::dup(0);
      ::close(next);
      none.rlim_cur = static_cast<rlim_t>(next);
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
      m.wait();
      first.join();
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
      EXPECT_EQ(f.code, patient ? xylRemoteError : xylTimeout) << f.text;
      EXPECT_TRUE(says(f.text.c_str(), patient ? "rank 1 of 2 could not come" : "rank 1 of 2 did not come"))
          << f.text;
      EXPECT_TRUE(says(f.text.c_str(), "which made the id, cannot accept a connection")) << f.text;
      m.wait();
    }));
  }
}

TEST(unique_id, with_missing_ranks_is_a_timeout_that_names_them) {
  const environment limit("XYLEM_TIMEOUT", "0.5");
  expect_good(forked_ranks(4, [&](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 4, m);
    if (rank < 2) {
      const failure f = failed_init(id, 4, rank);
      EXPECT_EQ(f.code, xylTimeout);
      EXPECT_TRUE(says(f.text.c_str(), "ranks 2, 3 of 4 did not come")) << f.text;
      EXPECT_LT(f.took_ns, 5'000'000'000);
    }
    m.wait();
  }));
}

TEST(unique_id, whose_rank_is_killed_during_initialisation_is_a_remote_error_within_a_second) {
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 3, m);
    if (rank == 2) {
      // Comes, and dies while it waits for the others.
      std::thread([] {
        ::usleep(200'000);
        ::kill(::getpid(), SIGKILL);
      }).detach();
      failed_init(id, 3, rank);
    } else if (rank == 1) {
      const failure f = failed_init(id, 3, rank);
      EXPECT_EQ(f.code, xylRemoteError);
      EXPECT_LT(f.took_ns, 1'200'000'000);
      EXPECT_TRUE(says(f.text.c_str(), "rank 2 (process")) << f.text;
    } else {
      ::sleep(2);
    }
  });
  EXPECT_EQ(ends[2].signal, SIGKILL);
  for (std::size_t r : {0u, 1u}) EXPECT_TRUE(ends[r].good()) << ends[r].text();
}

TEST(unique_id, whose_serving_process_is_killed_is_a_remote_error_within_a_second) {
  const auto ends = forked_ranks(3, [&](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 3, m);
    if (rank == 0) {
      ::usleep(300'000);
      ::kill(::getpid(), SIGKILL);
    }
    const failure f = failed_init(id, 3, rank);
    EXPECT_EQ(f.code, xylRemoteError);
    EXPECT_LT(f.took_ns, 1'300'000'000);
    EXPECT_TRUE(says(f.text.c_str(), "which made the unique id, ended")) << f.text;
  });
  EXPECT_EQ(ends[0].signal, SIGKILL);
  for (std::size_t r : {1u, 2u}) EXPECT_TRUE(ends[r].good()) << ends[r].text();
}

TEST(unique_id, with_a_wrong_environment_on_one_rank_is_known_to_all) {
  expect_good(forked_ranks(2, [&](int rank, meeting& m) {
    const xylUniqueId id = shared_id(rank, 2, m);
    if (rank == 1) ::setenv("XYLEM_ALGO", "fastest", 1);
    const failure f = failed_init(id, 2, rank);
    EXPECT_EQ(f.code, rank == 1 ? xylInvalidUsage : xylRemoteError);
    EXPECT_TRUE(says(f.text.c_str(), "XYLEM_ALGO")) << f.text;
  }));
}

TEST(unique_id, at_no_such_interface_is_invalid_usage_that_lists_those_there_are) {
  expect_good(forked_processes(1, [&](int) {
    ::setenv("XYLEM_SOCKET_IFNAME", "nosuch", 1);
    xylUniqueId id;
    EXPECT_EQ(xylGetUniqueId(&id), xylInvalidUsage);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "nosuch") && says(xylGetLastError(nullptr), "lo"))
        << xylGetLastError(nullptr);
    ::setenv("XYLEM_SOCKET_IFNAME", "=lo", 1);
    ASSERT_EQ(xylGetUniqueId(&id), xylSuccess) << xylGetLastError(nullptr);
    xylComm_t comm = nullptr;
    EXPECT_EQ(xylCommInitRank(&comm, 1, id, 0), xylSuccess) << xylGetLastError(nullptr);
    EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
  }));
}

}  // namespace
}  // namespace xyl::test
