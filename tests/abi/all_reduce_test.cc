// SPDX-License-Identifier: BSD-3-Clause
//
// xylAllReduce on host memory through the ABI, between processes: every type, operation and algorithm, odd sizes,
// in place, element-aligned pointers, chunked messages. The reference is computed element by element in double or
// in 64-bit integers, from values small enough to be exact there.
#include <fenv.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "abi/ranks.hpp"
#include "abi/values.hpp"
#include "exec/dispatch.hpp"
#include "proto/call.hpp"

namespace xyl::test {
namespace {

struct options {
  bool in_place = false;
  std::size_t shift = 0;  // elements by which the buffers miss the alignment of a vector
};

template <class T>
void check(xylComm_t comm, int rank, int ranks, xylDataType_t type, xylRedOp_t op, std::size_t count, options o) {
  constexpr std::size_t guard = 64;
  const T poison = make<T>(5);
  std::vector<T> send(count + 2 * guard + o.shift, poison), recv(send);
  T* const in = (o.in_place ? recv : send).data() + guard + o.shift;
  T* const out = recv.data() + guard + o.shift;
  for (std::size_t i = 0; i < count; ++i) in[i] = make<T>(value_of(rank, i));
  ASSERT_EQ(xylAllReduce(in, out, count, type, op, comm, nullptr), xylSuccess) << xylGetLastError(comm);
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T want = expected<T>(op, ranks, i);
    if (std::memcmp(&out[i], &want, sizeof want) != 0 && wrong++ == 0) first = i;
  }
  ASSERT_EQ(wrong, 0u) << facts_of(type)->name << " " << name_of_operation(op) << " count " << count
                       << ": first at " << first;
  for (std::size_t i = 0; i < guard; ++i) {
    ASSERT_EQ(std::memcmp(out - 1 - i, &poison, sizeof poison), 0) << "wrote before the buffer";
    ASSERT_EQ(std::memcmp(out + count + i, &poison, sizeof poison), 0) << "wrote behind the buffer";
  }
}

// Every type with every operation it has.
void check_all_types(xylComm_t comm, int rank, int ranks, std::size_t count, options o) {
  element_types::for_each([&](auto entry, int) {
    using T = typename decltype(entry)::type;
    for (xylRedOp_t op : {xylSum, xylProd, xylMax, xylMin, xylAvg, xylBitAnd, xylBitOr, xylBitXor}) {
      if (op >= xylBitAnd && !element_traits<T>::is_integer) continue;
      if (!testing::Test::HasFatalFailure()) check<T>(comm, rank, ranks, entry.code, op, count, o);
    }
  });
}

class all_reduce : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { ::setenv("XYLEM_ALGO", std::get<1>(GetParam()), 1); }
  void TearDown() override { ::unsetenv("XYLEM_ALGO"); }
  int ranks() const { return std::get<0>(GetParam()); }
};

TEST_P(all_reduce, every_type_operation_and_odd_size) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    for (std::size_t count : {0, 1, 2, 3, 7, 8, 9, 31, 33, 1000}) check_all_types(comm, rank, ranks(), count, {});
  });
}

TEST_P(all_reduce, in_place_and_aligned_to_the_element_only) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    for (std::size_t shift : {0, 1, 3})
      for (std::size_t count : {5, 130, 1021}) {
        check_all_types(comm, rank, ranks(), count, {true, shift});
        check_all_types(comm, rank, ranks(), count, {false, shift});
      }
  });
}

TEST_P(all_reduce, messages_of_many_chunks) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    for (std::size_t count : {100'003, 1'500'001}) {
      check<float>(comm, rank, ranks(), xylFloat32, xylSum, count, {});
      check<bfloat16>(comm, rank, ranks(), xylBfloat16, xylAvg, count, {true, 1});
      check<std::int8_t>(comm, rank, ranks(), xylInt8, xylMax, count, {});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(host, all_reduce,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values("auto", "packet", "oneshot", "twoshot", "ring")),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param)) + "_" +
                                  std::to_string(std::get<0>(info.param)) + "_ranks";
                         });

TEST(all_reduce_bits, are_the_same_on_all_ranks_where_the_order_matters) {
  constexpr int ranks = 4;
  const auto ends = forked_ranks(ranks, [&](int rank, meeting& m) {
    test_communicator comm(ranks, rank, m);
    ASSERT_EQ(comm.code(), xylSuccess) << comm.text();
    for (std::size_t count : {10, 3000, 100'000}) {
      std::vector<float> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = std::sin(static_cast<float>(i * 4 + rank)) * 1e3f;
      ASSERT_EQ(xylAllReduce(data.data(), data.data(), count, xylFloat32, xylSum, comm, nullptr), xylSuccess);
      std::uint64_t hash = 0;
      for (float x : data) hash = mix64(hash ^ float_bits(x));
      std::uint64_t all[ranks];
      ASSERT_EQ(m.allgather(rank)(&hash, all, sizeof hash), 0);
      for (std::uint64_t h : all) EXPECT_EQ(h, hash) << count;
    }
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

// As a program linked with -ffast-math has it; only on some ranks, since that is where it does most harm.
TEST(caller_that_flushes_subnormals_rounds_up_or_traps, gets_the_same_bits_as_the_other_ranks) {
  for (const char* how : {"packet", "oneshot", "twoshot", "ring"}) {
    ::setenv("XYLEM_ALGO", how, 1);
    with_ranks(2, [&](int rank, test_communicator& comm) {
      for (std::size_t count : {8, 1000}) {
        std::vector<float> tiny(count, 1e-40f), third(count, 1.0f / 3.0f), number(count, rank == 0 ? NAN : 2.0f);
        ::fenv_t before;
        ::fegetenv(&before);
        if (rank == 1) {
#ifdef __SSE__
          _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
          ::fesetround(FE_UPWARD);
        }
        ::feenableexcept(FE_INVALID);
        const int mode = ::fegetround(), traps = ::fegetexcept();
        const auto reduce = [&](std::vector<float>& data, xylRedOp_t op) {
          ASSERT_EQ(xylAllReduce(data.data(), data.data(), count, xylFloat32, op, comm, nullptr), xylSuccess);
        };
        reduce(tiny, xylSum);
        reduce(third, xylProd);
        reduce(number, xylMax);
        EXPECT_EQ(::fegetround(), mode);
        EXPECT_EQ(::fegetexcept(), traps);
        ::fesetenv(&before);
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_EQ(float_bits(tiny[i]), float_bits(1e-40f + 1e-40f)) << how;
          ASSERT_EQ(float_bits(third[i]), float_bits((1.0f / 3.0f) * (1.0f / 3.0f))) << how;
          ASSERT_EQ(number[i], 2.0f) << how;
        }
      }
    });
    ::unsetenv("XYLEM_ALGO");
  }
}

TEST(barrier, orders_what_came_before_it) {
  constexpr int ranks = 3;
  void* const shared = ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const std::atomic_ref arrivals(*static_cast<int*>(shared));
  with_ranks(ranks, [&](int, test_communicator& comm) {
    for (int i = 1; i <= 2000; ++i) {
      // Relaxed: the barrier is what must order it.
      arrivals.fetch_add(1, std::memory_order_relaxed);
      ASSERT_EQ(xylBarrier(comm, nullptr), xylSuccess) << xylGetLastError(comm);
      ASSERT_GE(arrivals.load(std::memory_order_relaxed), i * ranks);
    }
  });
  ::munmap(shared, sizeof(int));
}

TEST(communicators, two_of_them_alternate_and_calls_of_all_sizes_mix) {
  constexpr int ranks = 2;
  const auto ends = forked_ranks(ranks, [&](int rank, meeting& m) {
    test_communicator a(ranks, rank, m), b(ranks, rank, m);
    ASSERT_EQ(a.code(), xylSuccess) << a.text();
    ASSERT_EQ(b.code(), xylSuccess) << b.text();
    for (std::size_t i = 0; i < 300; ++i) {
      const std::size_t count = (i * 7919) % (i % 10 == 0 ? 300'000 : 3000);
      check<float>(i % 3 ? a : b, rank, ranks, xylFloat32, xylSum, count, {i % 2 == 0, i % 4});
      if (i % 5 == 0) {
        ASSERT_EQ(xylBarrier(i % 3 ? b : a, nullptr), xylSuccess);
      }
    }
  });
  for (const auto& end : ends) EXPECT_TRUE(end.good()) << end.text();
}

}  // namespace
}  // namespace xyl::test
