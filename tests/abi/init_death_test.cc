// SPDX-License-Identifier: BSD-3-Clause
//
// A rank that ends, or does not come, while the ranks initialise over an allgather of the program's: the others must
// not wait in it for ever. The allgather here does what xylem.h asks of one: it calls xylCommInitWait while it waits.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "abi/id_ranks.hpp"
#include "base/clock.hpp"

namespace xyl::test {
namespace {

constexpr int ranks = 4, victim = 2;
constexpr std::size_t most_bytes = 64 << 10;

// Of all ranks: parts of exchange n lie in its half n % 2, and are there when the rank's number is n or more. Who
// brings n + 1 has read all of n.
struct board {
  std::atomic<int> numbers[ranks];
  std::atomic<std::int64_t> died_ns;
  unsigned char parts[2][ranks][most_bytes];
};

enum class moment { before, after };  // of bringing its own part

struct asking {
  board& shared;
  int rank;
  int dies_in;  // the number of the exchange; 0: in none
  moment when;
  int number = 0;

  void die() {
    shared.died_ns = now_ns();
    ::kill(::getpid(), SIGKILL);
  }
  static int call(void* self, const void* send, void* recv, std::size_t bytes) {
    auto& a = *static_cast<asking*>(self);
    const int n = ++a.number;
    if (n == a.dies_in && a.when == moment::before) a.die();
    auto& half = a.shared.parts[n % 2];
    std::memcpy(half[a.rank], send, bytes);
    a.shared.numbers[a.rank] = n;
    for (int r = 0; r < ranks; ++r) {
      while (a.shared.numbers[r] < n)
        if (xylCommInitWait(r) != xylSuccess) return 1;
      std::memcpy(static_cast<unsigned char*>(recv) + static_cast<std::size_t>(r) * bytes, half[r], bytes);
    }
    if (n == a.dies_in && a.when == moment::after) a.die();
    return 0;
  }
};

class shared_board {
 public:
  shared_board()
      : at_(::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        board_(new (at_) board{}) {}
  ~shared_board() { ::munmap(at_, sizeof(board)); }
  board& operator*() const { return *board_; }

 private:
  void* at_;
  board* board_;
};

// What all ranks but the victim see.
template <class Check>
void with_a_victim(int dies_in, moment when, Check check) {
  shared_board shared;
  const auto ends = forked_processes(
      ranks,
      [&](int rank) {
        asking context{*shared, rank, rank == victim ? dies_in : 0, when};
        xylComm_t comm = nullptr;
        xylResult_t code = xylCommInitOob(&comm, ranks, rank, asking::call, &context);
        // Where it has died after all that the others need of it.
        std::string text = xylGetLastError(comm);
        if (code == xylSuccess) {
          code = xylBarrier(comm, nullptr);
          text = xylGetLastError(comm);
        }
        check(code, text, now_ns() - (*shared).died_ns);
        EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
      },
      30'000);
  for (int r = 0; r < ranks; ++r) {
    const process_end& end = ends[static_cast<std::size_t>(r)];
    if (r == victim)
      EXPECT_EQ(end.signal, SIGKILL) << "exchange " << dies_in;
    else
      EXPECT_TRUE(end.good()) << "exchange " << dies_in << ", rank " << r << ": " << end.text();
  }
}

TEST(rank_killed_during_initialisation, is_named_by_all_others_within_a_second) {
  for (int n = 1; n <= 8; ++n)
    for (const moment when : {moment::before, moment::after}) {
      // Before it has told who it is, nobody can know.
      if (n == 1 && when == moment::before) continue;
      with_a_victim(n, when, [&](xylResult_t code, const std::string& text, std::int64_t took_ns) {
        EXPECT_EQ(code, xylRemoteError) << text;
        EXPECT_TRUE(says(text.c_str(), "rank 2 (process")) << text;
        EXPECT_TRUE(says(text.c_str(), "which is gone")) << text;
        EXPECT_LT(took_ns, 1'000'000'000);
      });
    }
}

TEST(rank_killed_before_it_has_introduced_itself, is_a_timeout_that_names_it) {
  const environment calls("XYLEM_TIMEOUT", "0.5"), connections("XYLEM_CONNECT_TIMEOUT", "0.5");
  with_a_victim(1, moment::before, [](xylResult_t code, const std::string& text, std::int64_t took_ns) {
    EXPECT_EQ(code, xylTimeout) << text;
    EXPECT_TRUE(says(text.c_str(), "for rank 2 to come")) << text;
    EXPECT_LT(took_ns, 5'000'000'000);
  });
}

TEST(init_wait, outside_of_an_allgather_is_invalid_usage) {
  EXPECT_EQ(xylCommInitWait(0), xylInvalidUsage);
  EXPECT_TRUE(says(xylGetLastError(nullptr), "xylCommInitWait")) << xylGetLastError(nullptr);
}

TEST(init_wait, for_a_rank_that_does_not_exist_is_an_invalid_argument) {
  in_a_process([] {
    const auto ask = [](void*, const void*, void*, std::size_t) -> int {
      EXPECT_EQ(xylCommInitWait(2), xylInvalidArgument);
      EXPECT_EQ(xylCommInitWait(-2), xylInvalidArgument);
      EXPECT_EQ(xylCommInitWait(-1), xylSuccess);
      EXPECT_EQ(xylCommInitWait(1), xylSuccess);
      return 1;
    };
    xylComm_t comm = nullptr;
    EXPECT_EQ(xylCommInitOob(&comm, 2, 0, ask, nullptr), xylRemoteError);
    EXPECT_EQ(xylCommInitWait(0), xylInvalidUsage);
  });
}

}  // namespace
}  // namespace xyl::test
