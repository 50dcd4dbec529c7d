// SPDX-License-Identifier: BSD-3-Clause
//
// Initialisation where memory runs out on one rank: at each allocation in turn, operator new, which the library
// takes from the program, throws. The rank says so, and its peers hear of it at once instead of waiting for it.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "abi/ranks.hpp"

namespace {

// Allocations until one fails; negative: none does.
std::atomic<long> allocations_left{-1};

}  // namespace

// Not inline: the compiler would see malloc and free meet new and delete, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const at = allocations_left < 0 || allocations_left-- > 0 ? std::malloc(bytes) : nullptr;
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
// As the standard library's own, which AddressSanitizer replaces: what it gives is freed here.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }

namespace xyl::test {
namespace {

// The allgather's own allocations succeed, and the count begins at the first exchange: a rank that cannot even come
// to that one is the launcher's to notice.
struct gathering {
  std::function<int(const void*, void*, std::size_t)> gather;
  long fail_at;
  bool begun = false;

  static int call(void* self, const void* send, void* recv, std::size_t bytes) {
    auto& g = *static_cast<gathering*>(self);
    const long left = std::exchange(g.begun, true) ? allocations_left.exchange(-1) : g.fail_at;
    const int failed = g.gather(send, recv, bytes);
    allocations_left = left;
    return failed;
  }
};

TEST(initialisation, of_a_rank_whose_memory_runs_out_is_an_error_that_its_peers_hear_of) {
  for (long at = 0; at < 40; ++at) {
    const auto ends = forked_ranks(
        2,
        [&](int rank, meeting& m) {
          gathering context{m.allgather(rank), rank == 1 ? at : -1};
          xylComm_t comm = nullptr;
          const xylResult_t code = xylCommInitOob(&comm, 2, rank, gathering::call, &context);
          allocations_left = -1;
          if (code != xylSuccess) {
            EXPECT_EQ(code, rank == 1 ? xylSystemError : xylRemoteError) << xylGetLastError(nullptr);
          }
          // What only one of them missed (a name for the handle), the other sees in its next call.
          if (comm != nullptr) {
            const xylResult_t barrier = xylBarrier(comm, nullptr);
            EXPECT_TRUE(barrier == xylSuccess || barrier == xylRemoteError) << xylGetLastError(comm);
          }
          m.wait();
          EXPECT_EQ(xylCommDestroy(comm), xylSuccess);
        },
        5'000);
    for (const auto& end : ends) EXPECT_TRUE(end.good()) << "allocation " << at << ": " << end.text();
  }
}

TEST(initialisation, of_a_rank_whose_memory_runs_out_before_its_first_exchange_returns) {
  for (long at = 0; at < 30; ++at) {
    const auto ends = forked_processes(
        1,
        [&](int) {
          const auto absent = [](void*, const void*, void*, std::size_t) { return 1; };
          xylComm_t comm = nullptr;
          allocations_left = at;
          const xylResult_t code = xylCommInitOob(&comm, 2, 0, absent, nullptr);
          allocations_left = -1;
          EXPECT_NE(code, xylSuccess);
        },
        5'000);
    EXPECT_TRUE(ends[0].good()) << "allocation " << at << ": " << ends[0].text();
  }
}

}  // namespace
}  // namespace xyl::test
