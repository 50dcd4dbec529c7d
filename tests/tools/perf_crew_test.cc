// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of one process agree, call after call, without mixing up two calls.
#include "tools/perf_crew.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

namespace xyl {
namespace {

void with_seats(int threads, const std::function<void(seat&, int)>& body) {
  crew c(threads, MPI_COMM_WORLD);
  const auto run = [&](int i) {
    seat place(c, i);
    body(place, i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run, i);
  run(0);
  for (std::thread& t : others) t.join();
}

TEST(perf_crew, extremes_and_sums_of_all_threads) {
  for (int threads : {1, 2, 4})
    with_seats(threads, [&](seat& place, int i) {
      for (int round = 0; round < 12; ++round) {
        EXPECT_EQ(place.smallest(round + (i + round) % threads), round);
        EXPECT_EQ(place.sum(round * i), round * threads * (threads - 1) / 2);
        EXPECT_EQ(place.largest(round + 0.5 * i), round + 0.5 * (threads - 1));
      }
    });
}

TEST(perf_crew, nobody_passes_a_barrier_early) {
  std::atomic<int> come{0};
  with_seats(4, [&](seat& place, int) {
    for (int round = 1; round <= 12; ++round) {
      ++come;
      place.barrier();
      EXPECT_GE(come, 4 * round);
      place.barrier();
    }
  });
}

TEST(perf_crew, an_allgather_keeps_the_order_of_threads) {
  with_seats(3, [&](seat& place, int i) {
    for (int round = 0; round < 12; ++round) {
      // Sizes change from call to call.
      const std::vector<int> own(static_cast<std::size_t>(round % 3 + 1), 100 * round + i);
      std::vector<int> all(3 * own.size());
      ASSERT_EQ(place.allgather(own.data(), all.data(), own.size() * sizeof(int)), 0);
      for (std::size_t at = 0; at < all.size(); ++at)
        EXPECT_EQ(all[at], 100 * round + static_cast<int>(at / own.size()));
    }
  });
}

}  // namespace
}  // namespace xyl
