// SPDX-License-Identifier: BSD-3-Clause
//
// What a user sees when this rank itself is wrong: arguments, handles, initialisation, environment, a forked child.
// Each test is named after its symptom.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "abi/ranks.hpp"
#include "base/clock.hpp"
#include "comm/selection.hpp"

namespace xyl::test {
namespace {

TEST(wrong_arguments, give_a_sentence_and_leave_the_communicator_usable) {
  with_ranks(2, [&](int, test_communicator& comm) {
    std::vector<float> data(16, 1.0f);
    float* const p = data.data();
    const auto refused = [&](xylResult_t code, const char* part) {
      EXPECT_EQ(code, xylInvalidArgument);
      EXPECT_TRUE(says(xylGetLastError(comm), part)) << xylGetLastError(comm);
    };
    refused(xylAllReduce(nullptr, p, 4, xylFloat32, xylSum, comm, nullptr), "sendbuff is NULL");
    refused(xylAllReduce(p, nullptr, 4, xylFloat32, xylSum, comm, nullptr), "recvbuff is NULL");
    refused(xylAllReduce(p, p, 4, static_cast<xylDataType_t>(12), xylSum, comm, nullptr), "12 is not a data type");
    refused(xylAllReduce(p, p, 4, static_cast<xylDataType_t>(-1), xylSum, comm, nullptr), "not a data type");
    refused(xylAllReduce(p, p, 4, xylFloat32, static_cast<xylRedOp_t>(5), comm, nullptr), "5 is not an operation");
    refused(xylAllReduce(p, p, 4, xylFloat32, xylBitXor, comm, nullptr), "needs an integer type");
    refused(xylAllReduce(p, p, static_cast<std::size_t>(-1), xylFloat32, xylSum, comm, nullptr), "address space");
    refused(xylAllReduce(reinterpret_cast<char*>(p) + 1, p, 4, xylFloat32, xylSum, comm, nullptr), "not aligned");
    refused(xylCommCount(comm, nullptr), "NULL");
    EXPECT_EQ(xylAllReduce(nullptr, nullptr, 0, xylFloat32, xylSum, comm, nullptr), xylSuccess);
    EXPECT_EQ(xylAllReduce(p, p, 4, xylFloat32, xylSum, comm, nullptr), xylSuccess) << xylGetLastError(comm);
    EXPECT_EQ(p[0], 2.0f);
  });
}

TEST(wrong_handle, null_foreign_or_destroyed_is_refused_without_a_crash) {
  int n = 0;
  EXPECT_EQ(xylCommCount(nullptr, &n), xylInvalidArgument);
  EXPECT_TRUE(says(xylGetLastError(nullptr), "NULL"));
  EXPECT_EQ(xylCommCount(reinterpret_cast<xylComm_t>(0x1234), &n), xylInvalidArgument);
  EXPECT_EQ(xylBarrier(reinterpret_cast<xylComm_t>(&n), nullptr), xylInvalidArgument);
  EXPECT_EQ(xylCommAbort(reinterpret_cast<xylComm_t>(~0ull)), xylInvalidArgument);
  EXPECT_EQ(xylCommDestroy(reinterpret_cast<xylComm_t>(&n)), xylInvalidArgument);
  EXPECT_EQ(xylCommDestroy(nullptr), xylSuccess);
  with_ranks(1, [](int, test_communicator& comm) {
    const xylComm_t stale = comm;
    comm.destroy();
    int count = 0;
    EXPECT_EQ(xylCommCount(stale, &count), xylInvalidArgument);
    EXPECT_EQ(xylCommDestroy(stale), xylInvalidArgument);
  });
}

TEST(destroyed_handle, does_not_stand_for_the_communicator_that_was_made_after_it) {
  with_ranks(1, [](int rank, test_communicator& comm) {
    const xylComm_t stale = comm;
    comm.destroy();
    meeting alone(1);
    test_communicator next(1, rank, alone);
    ASSERT_EQ(next.code(), xylSuccess) << next.text();
    EXPECT_EQ(xylBarrier(stale, nullptr), xylInvalidArgument);
    EXPECT_EQ(xylCommAbort(stale), xylInvalidArgument);
    EXPECT_EQ(xylCommDestroy(stale), xylInvalidArgument);
    EXPECT_EQ(xylBarrier(next, nullptr), xylSuccess) << xylGetLastError(next);
  });
}

TEST(initialisation, with_wrong_arguments_is_refused) {
  xylComm_t comm = reinterpret_cast<xylComm_t>(1);
  const auto gather = [](void*, const void*, void*, std::size_t) { return 1; };
  EXPECT_EQ(xylCommInitOob(nullptr, 1, 0, gather, nullptr), xylInvalidArgument);
  EXPECT_EQ(xylCommInitOob(&comm, 1, 0, nullptr, nullptr), xylInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(xylCommInitOob(&comm, 0, 0, gather, nullptr), xylInvalidArgument);
  EXPECT_EQ(xylCommInitOob(&comm, 2, 2, gather, nullptr), xylInvalidArgument);
  EXPECT_EQ(xylCommInitOob(&comm, 2, -1, gather, nullptr), xylInvalidArgument);
  EXPECT_EQ(xylCommInitOob(&comm, 100'000, 0, gather, nullptr), xylInvalidArgument);
}

TEST(initialisation, with_an_allgather_that_fails_is_an_error) {
  const auto ends = forked_processes(1, [](int) {
    xylComm_t comm = nullptr;
    const auto gather = [](void*, const void*, void*, std::size_t) { return 1; };
    EXPECT_NE(xylCommInitOob(&comm, 2, 0, gather, nullptr), xylSuccess);
    EXPECT_EQ(comm, nullptr);
    EXPECT_STRNE(xylGetLastError(nullptr), "");
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

TEST(initialisation, with_an_allgather_that_throws_an_int_is_an_error) {
  const auto ends = forked_processes(1, [](int) {
    xylComm_t comm = nullptr;
    const auto gather = [](void*, const void*, void*, std::size_t) -> int { throw 42; };
    EXPECT_EQ(xylCommInitOob(&comm, 2, 0, gather, nullptr), xylInternalError);
    EXPECT_TRUE(says(xylGetLastError(nullptr), "allgather")) << xylGetLastError(nullptr);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

// The last exchange (rank 0's choice of algorithms) is garbled on one rank: an error, never a call that does
// nothing and says that all is well. In between, garbage would leave the ranks in different exchanges.
TEST(initialisation, with_an_allgather_that_delivers_garbage_never_ends_in_wrong_sums) {
  struct garbling {
    std::function<int(const void*, void*, std::size_t)> gather;
    std::size_t bytes;  // of the exchange to garble; 0: the first
    int fill;
    bool first = true;
  };
  for (std::size_t garbled : {std::size_t{0}, sizeof(selection)})
    for (int fill : {0x00, 0x5a, 0xff}) {
      const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
        garbling context{m.allgather(rank), rank == 1 ? garbled : ~std::size_t{0}, fill};
        const auto gather = [](void* self, const void* send, void* recv, std::size_t bytes) {
          auto& g = *static_cast<garbling*>(self);
          const int failed = g.gather(send, recv, bytes);
          const bool is_it = g.bytes == 0 ? std::exchange(g.first, false) : bytes == g.bytes;
          if (is_it) std::memset(recv, g.fill, 2 * bytes);
          return failed;
        };
        xylComm_t comm = nullptr;
        if (xylCommInitOob(&comm, 2, rank, gather, &context) != xylSuccess) return m.break_up();
        float x = 1.0f;
        if (xylAllReduce(&x, &x, 1, xylFloat32, xylSum, comm, nullptr) == xylSuccess) {
          EXPECT_EQ(x, 2.0f);
        }
        EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
      });
      for (const auto& end : ends) EXPECT_TRUE(end.good()) << garbled << ": " << end.text();
    }
}

// Wherever the descriptors run out, the rank comes back, and its peers learn of it.
TEST(initialisation, with_too_few_descriptors_is_an_error_on_all_ranks_and_never_a_hang) {
  for (int spare = 0; spare < 12; ++spare) {
    const auto ends = forked_ranks(
        2,
        [&](int rank, meeting& m) {
          rlimit limit;
          ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
          const rlimit whole = limit;
          const int next = ::dup(0);
          ::close(next);
          limit.rlim_cur = static_cast<rlim_t>(next + spare);
          if (rank == 1) {
            ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
          }
          test_communicator comm(2, rank, m);
          if (comm.code() != xylSuccess) {
            EXPECT_EQ(comm.code(), rank == 1 ? xylSystemError : xylRemoteError) << comm.text();
          }
          ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
          // Another try, with enough, is not spoiled by the first.
          test_communicator again(2, rank, m);
          EXPECT_EQ(again.code(), xylSuccess) << again.text();
          EXPECT_EQ(xylBarrier(again, nullptr), xylSuccess) << xylGetLastError(again);
        },
        20'000);
    for (const auto& end : ends) EXPECT_TRUE(end.good()) << spare << " spare: " << end.text();
  }
}

// Rank 2 connects to rank 1, which is stopped between two exchanges, and comes to the next one in spite of that.
TEST(initialisation, with_a_stopped_rank_does_not_hold_up_others_for_longer_than_their_deadline) {
  ::setenv("XYLEM_TIMEOUT", "2", 1);
  const auto ends = forked_ranks(3, [](int rank, meeting& m) {
    const pid_t own = ::getpid();
    pid_t all[3];
    ASSERT_EQ(m.allgather(rank)(&own, all, sizeof own), 0);
    struct state {
      std::function<int(const void*, void*, std::size_t)> gather;
      int rank, exchanges;
      pid_t stopped;
      std::int64_t began = 0;
      std::atomic<bool> is_over = false;
      std::thread waker = {};
    } s{m.allgather(rank), rank, 0, all[1]};
    xylComm_t comm = nullptr;
    xylCommInitOob(
        &comm, 3, rank,
        [](void* context, const void* send, void* recv, std::size_t bytes) {
          state& s = *static_cast<state*>(context);
          ++s.exchanges;
          if (s.rank == 2 && s.exchanges == 3) {
            EXPECT_LT(now_ns() - s.began, 5'000'000'000);  // 10 s it was
            // Again and again: rank 1 may be late to stop.
            s.waker = std::thread([&s] {
              for (; !s.is_over; ::usleep(20'000)) ::kill(s.stopped, SIGCONT);
            });
          }
          const int failed = s.gather(send, recv, bytes);
          s.began = now_ns();
          if (s.rank == 1 && s.exchanges == 2) ::raise(SIGSTOP);
          return failed;
        },
        &s);
    EXPECT_GE(s.exchanges, 3);
    xylCommDestroy(comm);
    // Rank 1 cannot stop any more once it has come here.
    m.wait();
    s.is_over = true;
    if (s.waker.joinable()) s.waker.join();
  });
  for (const process_end& end : ends) EXPECT_TRUE(end.good()) << end.text();
  ::unsetenv("XYLEM_TIMEOUT");
}

TEST(wrong_environment, of_one_rank_fails_all_ranks_by_name) {
  const auto ends = forked_ranks(2, [&](int rank, meeting& m) {
    if (rank == 1) ::setenv("XYLEM_TIMEOUT", "soon", 1);
    test_communicator comm(2, rank, m);
    EXPECT_EQ(comm.code(), rank == 1 ? xylInvalidUsage : xylRemoteError);
    EXPECT_TRUE(says(comm.text().c_str(), "XYLEM_TIMEOUT")) << comm.text();
    EXPECT_TRUE(says(comm.text().c_str(), "soon")) << comm.text();
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

TEST(fork, child_is_refused_and_parent_goes_on) {
  with_ranks(2, [&](int, test_communicator& comm) {
    const pid_t child = ::fork();
    if (child == 0) {
      const xylResult_t code = xylBarrier(comm, nullptr);
      ::_exit(code == xylInvalidUsage ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(xylBarrier(comm, nullptr), xylSuccess) << xylGetLastError(comm);
  });
}

TEST(texts, exist_for_every_code_and_version_is_the_headers) {
  for (int code = -1; code < 100; ++code) EXPECT_STRNE(xylGetErrorString(static_cast<xylResult_t>(code)), "");
  int version = 0;
  EXPECT_EQ(xylGetVersion(&version), xylSuccess);
  EXPECT_EQ(version, XYL_VERSION_CODE);
  EXPECT_EQ(xylGetVersion(nullptr), xylInvalidArgument);
}

}  // namespace
}  // namespace xyl::test
