// SPDX-License-Identifier: BSD-3-Clause
//
// Registered buffers in host memory, with ranks as processes: the same results as without, places that differ,
// memory that cannot be shared.
#include "abi/window.hpp"

#include <cstdlib>
#include <vector>

#include "abi/values.hpp"

namespace xyl::test {
namespace {

template <class T>
void expect_reduced(const T* got, std::size_t count, xylRedOp_t op, int ranks, std::size_t first = 0) {
  for (std::size_t i = 0; i < count; ++i) {
    const T want = expected<T>(op, ranks, first + i);
    ASSERT_EQ(std::memcmp(&got[i], &want, sizeof want), 0) << "element " << i << " of " << count;
  }
}

template <class T>
void all_reduces(int ranks, int rank, xylComm_t comm, xylDataType_t type, xylRedOp_t op) {
  constexpr std::size_t room = 200'000;
  shared_buffer_of in(comm, room * sizeof(T)), out(comm, room * sizeof(T));
  // A long one, odd ones, ones that are not aligned to units; out of place, in place, and to an unregistered
  // buffer.
  for (const auto& [count, at] :
       {std::pair<std::size_t, std::size_t>{150'001, 0}, {1, 3}, {999, 64}, {40'000, 1}, {0, 5}}) {
    std::vector<T> plain(count, make<T>(0));
    T* const given = in.at<T>(at);
    for (T* const to : {out.at<T>(at + 2), plain.data(), given}) {
      for (std::size_t i = 0; i < count; ++i) given[i] = make<T>(value_of(rank, i));
      ASSERT_EQ(xylAllReduce(given, to, count, type, op, comm, nullptr), xylSuccess) << xylGetLastError(comm);
      expect_reduced(to, count, op, ranks);
      // The call is over for everybody: what is written now belongs to no call.
      for (std::size_t i = 0; i < count; ++i) given[i] = make<T>(0);
    }
  }
}

class windows_of : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { ::setenv("XYLEM_PULL", std::get<1>(GetParam()), 1); }
  void TearDown() override { ::unsetenv("XYLEM_PULL"); }
  int ranks() const { return std::get<0>(GetParam()); }
};

TEST_P(windows_of, reductions_are_those_of_other_buffers) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    all_reduces<float>(ranks(), rank, comm, xylFloat32, xylSum);
    all_reduces<bfloat16>(ranks(), rank, comm, xylBfloat16, xylAvg);
    all_reduces<std::int64_t>(ranks(), rank, comm, xylInt64, xylMax);
    EXPECT_TRUE(registered(comm).empty());
  });
}

TEST_P(windows_of, blocks_go_where_they_belong_in_place_or_not) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    const auto all = static_cast<std::size_t>(ranks()), mine = static_cast<std::size_t>(rank);
    constexpr std::size_t room = 60'000;
    shared_buffer_of a(comm, all * room * sizeof(int)), b(comm, all * room * sizeof(int));
    for (const std::size_t n : {std::size_t{50'000}, std::size_t{7}, std::size_t{16'387}}) {
      const auto value = [&](std::size_t from, std::size_t i) {
        return static_cast<int>(from * 1'000'003 + i * 7 + n);
      };
      for (const bool in_place : {false, true}) {
        int* const out = b.at<int>(3);
        // allgather
        int* own = in_place ? out + mine * n : a.at<int>(5);
        for (std::size_t i = 0; i < n; ++i) own[i] = value(mine, i);
        ASSERT_EQ(xylAllGather(own, out, n, xylInt32, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        for (std::size_t i = 0; i < all * n; ++i) ASSERT_EQ(out[i], value(i / n, i % n)) << i;
        // alltoall
        int* given = in_place ? out : a.at<int>(1);
        for (std::size_t i = 0; i < all * n; ++i) given[i] = value(mine, i);
        ASSERT_EQ(xylAlltoAll(given, out, n, xylInt32, comm, nullptr), xylSuccess) << xylGetLastError(comm);
        for (std::size_t i = 0; i < all * n; ++i) ASSERT_EQ(out[i], value(i / n, mine * n + i % n)) << i;
        // reduce-scatter
        given = a.at<int>(2);
        int* const block = in_place ? given + mine * n : b.at<int>(0);
        for (std::size_t i = 0; i < all * n; ++i) given[i] = value_of(rank, i);
        ASSERT_EQ(xylReduceScatter(given, block, n, xylInt32, xylSum, comm, nullptr), xylSuccess)
            << xylGetLastError(comm);
        expect_reduced(block, n, xylSum, ranks(), mine * n);
      }
    }
  });
}

// Whoever has registered only what is sent, or only what is received.
TEST_P(windows_of, one_side_is_enough) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    const auto all = static_cast<std::size_t>(ranks()), mine = static_cast<std::size_t>(rank);
    constexpr std::size_t room = 60'000;
    shared_buffer_of window(comm, all * room * sizeof(int));
    std::vector<int> plain(all * room);
    for (const std::size_t n : {std::size_t{50'000}, std::size_t{7}, std::size_t{16'387}}) {
      const auto value = [&](std::size_t from, std::size_t i) {
        return static_cast<int>(from * 1'000'003 + i * 7 + n);
      };
      // Received into the window.
      int* const out = window.at<int>(3);
      for (std::size_t i = 0; i < n; ++i) plain[i] = value(mine, i);
      ASSERT_EQ(xylAllGather(plain.data(), out, n, xylInt32, comm, nullptr), xylSuccess) << xylGetLastError(comm);
      for (std::size_t i = 0; i < all * n; ++i) ASSERT_EQ(out[i], value(i / n, i % n)) << i;
      for (std::size_t i = 0; i < all * n; ++i) plain[i] = value(mine, i);
      ASSERT_EQ(xylAlltoAll(plain.data(), out, n, xylInt32, comm, nullptr), xylSuccess) << xylGetLastError(comm);
      for (std::size_t i = 0; i < all * n; ++i) ASSERT_EQ(out[i], value(i / n, mine * n + i % n)) << i;
      for (const bool in_place : {false, true})
        for (int root = 0; root < ranks(); ++root) {
          int* const given = in_place && rank == root ? out : plain.data();
          for (std::size_t i = 0; i < n; ++i) out[i] = -1;
          for (std::size_t i = 0; i < n; ++i) given[i] = value(mine + 5, i);
          ASSERT_EQ(xylBroadcast(rank == root ? given : nullptr, out, n, xylInt32, root, comm, nullptr), xylSuccess)
              << xylGetLastError(comm);
          for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out[i], value(static_cast<std::size_t>(root) + 5, i)) << i;
          // Sent from the window.
          for (std::size_t i = 0; i < n; ++i) out[i] = value_of(rank, i);
          int* const to = in_place ? out : plain.data();
          ASSERT_EQ(xylReduce(out, rank == root ? to : nullptr, n, xylInt32, xylSum, root, comm, nullptr),
                    xylSuccess)
              << xylGetLastError(comm);
          if (rank == root) expect_reduced(to, n, xylSum, ranks());
          for (std::size_t i = 0; i < n; ++i) out[i] = -2;
        }
    }
  });
}

TEST_P(windows_of, a_broadcast_into_other_places_is_refused_by_all) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 20'000;
    void *memory = nullptr, *handle = nullptr;
    ASSERT_EQ(xylMemAlloc(&memory, 2 * n * sizeof(int), xylMemHost), xylSuccess);
    ASSERT_EQ(xylCommRegister(comm, memory, 2 * n * sizeof(int), &handle), xylSuccess);
    int* const out = static_cast<int*>(memory);
    for (std::size_t i = 0; i < 2 * n; ++i) out[i] = 7;
    std::vector<int> data(n, 1);
    EXPECT_EQ(xylBroadcast(data.data(), out + (rank == ranks() - 1 ? 4 : 0), n, xylInt32, 0, comm, nullptr),
              xylInvalidUsage);
    for (std::size_t i = 0; i < 2 * n; ++i) ASSERT_EQ(out[i], 7);
    comm.destroy();
    EXPECT_EQ(xylMemFree(memory), xylSuccess) << xylGetLastError(nullptr);
  });
}

// Other calls between them, on the same memory, and an operation whose input is not the user's buffer.
TEST_P(windows_of, go_together_with_every_other_call) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 30'000;
    shared_buffer_of in(comm, n * sizeof(float)), out(comm, n * sizeof(float));
    float three = 3;
    xylRedOp_t tripled = xylSum;
    ASSERT_EQ(xylRedOpCreatePreMulSum(&tripled, &three, xylFloat32, xylScalarHostImmediate, comm), xylSuccess);
    for (int round = 0; round < 5; ++round) {
      const auto fill = [&] {
        for (std::size_t i = 0; i < n; ++i) in.at<float>(0)[i] = static_cast<float>(rank + 1 + round);
      };
      const float sum = static_cast<float>(ranks() * (ranks() + 1) / 2 + ranks() * round);
      fill();
      ASSERT_EQ(xylAllReduce(in.at<float>(0), out.at<float>(0), n, xylFloat32, tripled, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out.at<float>(0)[i], 3 * sum);
      ASSERT_EQ(xylAllReduce(in.at<float>(0), out.at<float>(0), n, xylFloat32, xylSum, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out.at<float>(0)[i], sum);
      ASSERT_EQ(xylBroadcast(in.at<float>(0), out.at<float>(0), n, xylFloat32, 1, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(out.at<float>(0)[i], static_cast<float>(2 + round));
      ASSERT_EQ(xylReduce(in.at<float>(0), out.at<float>(0), n, xylFloat32, xylSum, 0, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; rank == 0 && i < n; ++i) ASSERT_EQ(out.at<float>(0)[i], sum);
      ASSERT_EQ(xylBarrier(comm, nullptr), xylSuccess);
    }
    EXPECT_EQ(xylRedOpDestroy(tripled, comm), xylSuccess);
  });
}

TEST_P(windows_of, buffers_at_other_places_are_refused_by_all_with_outputs_untouched) {
  for (const int mistake : {0, 1, 2})
    with_ranks(ranks(), [&](int rank, test_communicator& comm) {
      constexpr std::size_t n = 20'000;
      void *in = nullptr, *out = nullptr, *in_window = nullptr, *out_window = nullptr;
      ASSERT_EQ(xylMemAlloc(&in, n * 8, xylMemHost), xylSuccess);
      ASSERT_EQ(xylMemAlloc(&out, n * 8, xylMemHost), xylSuccess);
      ASSERT_EQ(xylCommRegister(comm, in, n * 8, &in_window), xylSuccess);
      ASSERT_EQ(xylCommRegister(comm, out, n * 8, &out_window), xylSuccess);
      std::vector<int> plain(n, 1);
      int *send = static_cast<int*>(in), *recv = static_cast<int*>(out);
      for (std::size_t i = 0; i < 2 * n; ++i) recv[i] = 7;
      if (rank == ranks() - 1) {
        if (mistake == 0) send += 4;            // another distance
        if (mistake == 1) send = plain.data();  // in no window
        if (mistake == 2) recv = send;          // another window
      }
      EXPECT_EQ(xylAllReduce(send, recv, n, xylInt32, xylSum, comm, nullptr), xylInvalidUsage);
      EXPECT_TRUE(says(xylGetLastError(comm), "registered buffer")) << xylGetLastError(comm);
      for (std::size_t i = 0; i < 2 * n; ++i) ASSERT_EQ(static_cast<int*>(out)[i], 7);
      // Out of service: the window goes all the same, and its memory can be freed.
      EXPECT_EQ(xylCommDeregister(comm, in_window), xylInvalidUsage);
      EXPECT_EQ(xylMemFree(in), xylSuccess) << xylGetLastError(nullptr);
      EXPECT_EQ(xylMemFree(out), xylInvalidUsage);
      comm.destroy();
      EXPECT_EQ(xylMemFree(out), xylSuccess) << xylGetLastError(nullptr);
    });
}

INSTANTIATE_TEST_SUITE_P(host, windows_of,
                         testing::Combine(testing::Values(2, 3),
                                          testing::Values("auto", "oneshot", "twoshot", "never")),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<0>(info.param)) + "_ranks";
                         });

TEST(a_window, of_memory_that_cannot_be_shared_is_staged_and_says_so) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 100'000;
    void *shared = nullptr, *handle = nullptr;
    ASSERT_EQ(xylMemAlloc(&shared, n * sizeof(int), xylMemHost), xylSuccess);
    std::vector<int> plain(n), out(n);
    // Only one of the ranks has something that cannot be shared.
    int* const mine = rank == 1 ? plain.data() : static_cast<int*>(shared);
    ASSERT_EQ(xylCommRegister(comm, mine, n * sizeof(int), &handle), xylSuccess) << xylGetLastError(comm);
    const json d = registered(comm);
    ASSERT_EQ(d.size(), 1u);
    EXPECT_EQ(d[0]["in_place"], false);
    EXPECT_EQ(d[0]["memory"], "host");
    EXPECT_EQ(d[0]["bytes"], n * sizeof(int));
    EXPECT_TRUE(says(d.dump().c_str(), "rank 1: its buffer is not in memory that xylMemAlloc gave out")) << d;
    for (std::size_t i = 0; i < n; ++i) mine[i] = rank + 1;
    // Staged: then places do not matter.
    ASSERT_EQ(xylAllReduce(mine + rank, out.data(), n - 1, xylInt32, xylSum, comm, nullptr), xylSuccess);
    for (std::size_t i = 0; i + 1 < n; ++i) ASSERT_EQ(out[i], 3);
    EXPECT_EQ(xylCommDeregister(comm, handle), xylSuccess) << xylGetLastError(comm);
    EXPECT_EQ(xylMemFree(shared), xylSuccess);
  });
}

TEST(a_window, is_used_in_place_and_says_so) {
  with_ranks(2, [&](int rank, test_communicator& comm) {
    constexpr std::size_t n = 1 << 20;
    shared_buffer_of window(comm, 2 * n);
    const json d = registered(comm);
    ASSERT_EQ(d.size(), 1u);
    EXPECT_EQ(d[0]["in_place"], true) << d;
    EXPECT_TRUE(d[0]["staged_because"].is_null());
    // The peer wrote there itself: what lies in its half of my output is mine already when only it has worked.
    std::memset(window.at<char>(0), rank + 1, n);
    ASSERT_EQ(xylAllReduce(window.at<char>(0), window.at<char>(n), n, xylInt8, xylSum, comm, nullptr), xylSuccess);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(window.at<char>(n)[i], 3);
  });
}

}  // namespace
}  // namespace xyl::test
