// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives other than xylAllReduce on host memory through the ABI, between processes: all roots, odd sizes,
// in place, element-aligned pointers, long messages, every type and operation of the reductions, calls that differ.
#include <numeric>
#include <vector>

#include "abi/ranks.hpp"
#include "abi/values.hpp"
#include "proto/call.hpp"

namespace xyl::test {
namespace {

// One buffer with guards, of `count` elements of so many bytes.
class guarded {
 public:
  guarded(std::size_t bytes, std::size_t shift)
      : storage_(bytes + shift + 2 * guard, filling), begin_(guard + shift) {
    bytes_ = bytes;
  }
  unsigned char* data() { return storage_.data() + begin_; }
  void expect_guards() const {
    for (std::size_t i = 0; i < storage_.size(); ++i)
      if (i < begin_ || i >= begin_ + bytes_) {
        ASSERT_EQ(storage_[i], filling) << "byte " << i << " around a buffer";
      }
  }
  void expect_untouched() const {
    for (const unsigned char c : storage_) ASSERT_EQ(c, filling);
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char filling = 0xa5;
  std::vector<unsigned char> storage_;
  std::size_t begin_, bytes_;
};

// Byte i of what `rank` sends.
unsigned char byte_of(int rank, std::size_t i, unsigned seed) {
  return static_cast<unsigned char>(mix64(mix64(seed * 256 + static_cast<unsigned>(rank)) + i));
}

struct move_case {
  collective what;
  xylDataType_t type;
  std::size_t count;
  int root = 0;
  bool in_place = false;
  std::size_t shift = 0;  // elements
};

xylResult_t call(const move_case& m, const void* in, void* out, xylComm_t comm) {
  switch (m.what) {
    case collective::broadcast:
      return xylBroadcast(in, out, m.count, m.type, m.root, comm, nullptr);
    case collective::all_gather:
      return xylAllGather(in, out, m.count, m.type, comm, nullptr);
    case collective::all_to_all:
      return xylAlltoAll(in, out, m.count, m.type, comm, nullptr);
    case collective::gather:
      return xylGather(in, out, m.count, m.type, m.root, comm, nullptr);
    case collective::scatter:
      return xylScatter(in, out, m.count, m.type, m.root, comm, nullptr);
    default:
      return xylInternalError;
  }
}

void check_move(const move_case& m, xylComm_t comm, int rank, int ranks, unsigned seed) {
  const std::size_t element = facts_of(m.type)->bytes, piece = m.count * element;
  const auto all = static_cast<std::size_t>(ranks);
  const bool is_root = rank == m.root;
  const bool from_root = m.what == collective::broadcast || m.what == collective::scatter;
  const bool to_root = m.what == collective::gather;
  const bool many_in = m.what == collective::all_to_all || m.what == collective::scatter;
  const bool many_out = m.what == collective::all_to_all || m.what == collective::all_gather || to_root;
  const bool has_in = !from_root || is_root, has_out = !to_root || is_root;
  guarded in(has_in ? piece * (many_in ? all : 1) : 0, m.shift * element);
  guarded out(has_out ? piece * (many_out ? all : 1) : 0, m.shift * element);
  unsigned char *from = in.data(), *to = out.data();
  if (m.in_place && has_in && has_out) {
    const std::size_t own = piece * static_cast<unsigned>(rank);
    if (many_in && !many_out)
      to = from + own;
    else
      from = to + (many_out && !many_in ? own : 0);
  }
  const std::size_t in_bytes = has_in ? piece * (many_in ? all : 1) : 0;
  for (std::size_t i = 0; i < in_bytes; ++i) from[i] = byte_of(rank, i, seed);
  // Buffers that are not used may be anything.
  ASSERT_EQ(call(m, has_in ? from : nullptr, has_out ? to : nullptr, comm), xylSuccess) << xylGetLastError(comm);
  in.expect_guards();
  out.expect_guards();
  for (int p = 0; has_out && p < ranks; ++p) {
    if (from_root && p != m.root) continue;
    const std::size_t theirs = many_in ? piece * static_cast<unsigned>(rank) : 0;
    const std::size_t mine = many_out ? piece * static_cast<unsigned>(p) : 0;
    for (std::size_t i = 0; i < piece; ++i)
      ASSERT_EQ(to[mine + i], byte_of(p, theirs + i, seed))
          << "collective " << static_cast<int>(m.what) << " count " << m.count << " root " << m.root << " in place "
          << m.in_place << " shift " << m.shift << ": byte " << i << " from rank " << p;
  }
}

constexpr collective moves[] = {collective::broadcast, collective::all_gather, collective::all_to_all,
                                collective::gather, collective::scatter};

class collectives : public testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  void SetUp() override { ::setenv("XYLEM_ALGO", std::get<1>(GetParam()), 1); }
  void TearDown() override { ::unsetenv("XYLEM_ALGO"); }
  int ranks() const { return std::get<0>(GetParam()); }
};

TEST_P(collectives, that_move_data_deliver_every_byte) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    unsigned seed = 0;
    for (const collective what : moves)
      for (const xylDataType_t type : {xylInt8, xylBfloat16, xylFloat32, xylInt64})
        for (const std::size_t count : {0, 1, 3, 13, 31, 112, 496, 497, 1000, 20'001})
          for (int root = 0; root < ranks(); ++root)
            for (const bool in_place : {false, true}) {
              ++seed;
              check_move({what, type, count, root, in_place, seed % 4}, comm, rank, ranks(), seed);
              if (testing::Test::HasFatalFailure()) return;
            }
  });
}

TEST_P(collectives, of_many_chunks_alternate_with_allreduce_and_barrier) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    unsigned seed = 0;
    for (const std::size_t count : {100'003, 700'001})
      for (const collective what : moves) {
        ++seed;
        check_move({what, xylInt16, count, static_cast<int>(seed) % ranks(), seed % 2 == 0, seed % 2}, comm, rank,
                   ranks(), seed);
        float one = 1;
        ASSERT_EQ(xylAllReduce(&one, &one, 1, xylFloat32, xylSum, comm, nullptr), xylSuccess);
        ASSERT_EQ(one, static_cast<float>(ranks()));
        ASSERT_EQ(xylBarrier(comm, nullptr), xylSuccess);
      }
  });
}

// Rank `root` (-1: reduce-scatter) gets op over the ranks.
template <class T>
void check_reduce(xylComm_t comm, int rank, int ranks, xylDataType_t type, xylRedOp_t op, std::size_t count,
                  int root, bool in_place, std::size_t shift) {
  const bool scatters = root < 0, has_out = scatters || root == rank;
  const std::size_t in_count = scatters ? count * static_cast<unsigned>(ranks) : count;
  const std::size_t first = scatters ? count * static_cast<unsigned>(rank) : 0;
  guarded in(in_count * sizeof(T), shift * sizeof(T)), out(has_out ? count * sizeof(T) : 0, shift * sizeof(T));
  T* const from = reinterpret_cast<T*>(in.data());
  T* const to = in_place ? from + first : reinterpret_cast<T*>(out.data());
  for (std::size_t i = 0; i < in_count; ++i) from[i] = make<T>(value_of(rank, i));
  const xylResult_t code = scatters ? xylReduceScatter(from, to, count, type, op, comm, nullptr)
                                    : xylReduce(from, has_out ? to : nullptr, count, type, op, root, comm, nullptr);
  ASSERT_EQ(code, xylSuccess) << xylGetLastError(comm);
  in.expect_guards();
  out.expect_guards();
  for (std::size_t i = 0; has_out && i < count; ++i) {
    const T want = expected<T>(op, ranks, first + i);
    ASSERT_EQ(std::memcmp(&to[i], &want, sizeof want), 0)
        << facts_of(type)->name << " " << name_of_operation(op) << " count " << count << " root " << root
        << " in place " << in_place << ": element " << i;
  }
}

TEST_P(collectives, that_reduce_do_so_for_every_type_and_operation) {
  with_ranks(ranks(), [&](int rank, test_communicator& comm) {
    std::size_t turn = 0;
    for (const std::size_t count : {0, 1, 9, 1000})
      element_types::for_each([&](auto entry, int) {
        using T = typename decltype(entry)::type;
        for (xylRedOp_t op : {xylSum, xylProd, xylMax, xylMin, xylAvg, xylBitAnd, xylBitOr, xylBitXor}) {
          if (op >= xylBitAnd && !element_traits<T>::is_integer) continue;
          for (int root = -1; root < ranks(); ++root, ++turn) {
            if (testing::Test::HasFatalFailure()) return;
            check_reduce<T>(comm, rank, ranks(), entry.code, op, count, root, turn % 2 == 0, turn % 3);
          }
        }
      });
    for (const std::size_t count : {70'001, 400'003})
      for (int root = -1; root < ranks(); ++root) {
        check_reduce<float>(comm, rank, ranks(), xylFloat32, xylSum, count, root, root % 2 == 0, 1);
        check_reduce<bfloat16>(comm, rank, ranks(), xylBfloat16, xylMax, count, root, root % 2 != 0, 0);
      }
  });
}

INSTANTIATE_TEST_SUITE_P(
    host, collectives, testing::Combine(testing::Values(1, 2, 3, 4), testing::Values("auto", "packet", "twoshot")),
    [](const auto& info) {
      return std::string(std::get<1>(info.param)) + "_" + std::to_string(std::get<0>(info.param)) + "_ranks";
    });

TEST(bits, of_reduce_and_reduce_scatter_are_those_of_allreduce) {
  constexpr int ranks = 4;
  with_ranks(ranks, [&](int rank, test_communicator& comm) {
    for (const std::size_t count : {5, 3000, 100'000}) {
      std::vector<float> in(count * ranks), all(in.size()), part(count), root(in.size());
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = std::sin(static_cast<float>(i * 4 + static_cast<unsigned>(rank))) * 1e3f;
      ASSERT_EQ(xylAllReduce(in.data(), all.data(), in.size(), xylFloat32, xylSum, comm, nullptr), xylSuccess);
      ASSERT_EQ(xylReduceScatter(in.data(), part.data(), count, xylFloat32, xylSum, comm, nullptr), xylSuccess);
      ASSERT_EQ(std::memcmp(part.data(), &all[static_cast<unsigned>(rank) * count], count * sizeof(float)), 0);
      ASSERT_EQ(xylReduce(in.data(), root.data(), in.size(), xylFloat32, xylSum, 2, comm, nullptr), xylSuccess);
      if (rank == 2) {
        ASSERT_EQ(std::memcmp(root.data(), all.data(), in.size() * sizeof(float)), 0);
      }
    }
  });
}

TEST(premultiplied_sum, takes_each_ranks_own_scalar) {
  constexpr int ranks = 3;
  with_ranks(ranks, [&](int rank, test_communicator& comm) {
    float mine = static_cast<float>(rank) + 0.5f;
    std::int32_t whole = rank - 1;
    xylRedOp_t scaled, integral;
    ASSERT_EQ(xylRedOpCreatePreMulSum(&scaled, &mine, xylFloat32, xylScalarHostImmediate, comm), xylSuccess);
    ASSERT_EQ(xylRedOpCreatePreMulSum(&integral, &whole, xylInt32, xylScalarHostImmediate, comm), xylSuccess);
    mine = 99;  // was read already
    EXPECT_NE(scaled, integral);
    for (const std::size_t count : {1, 1000, 500'003}) {
      std::vector<float> in(count * ranks), out(count * ranks, -1);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 64 + static_cast<unsigned>(rank));
      const auto want = [&](std::size_t i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r)
          sum += (static_cast<float>(r) + 0.5f) * static_cast<float>(i % 64 + static_cast<unsigned>(r));
        return sum;
      };
      ASSERT_EQ(xylAllReduce(in.data(), out.data(), in.size(), xylFloat32, scaled, comm, nullptr), xylSuccess)
          << xylGetLastError(comm);
      for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], want(i)) << i;
      ASSERT_EQ(xylReduceScatter(in.data(), out.data(), count, xylFloat32, scaled, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], want(static_cast<unsigned>(rank) * count + i)) << i;
      ASSERT_EQ(xylReduce(in.data(), in.data(), count, xylFloat32, scaled, 1, comm, nullptr), xylSuccess);
      for (std::size_t i = 0; rank == 1 && i < count; ++i) ASSERT_EQ(in[i], want(i)) << i;
      std::vector<std::int32_t> numbers(count, 5);
      ASSERT_EQ(xylAllReduce(numbers.data(), numbers.data(), count, xylInt32, integral, comm, nullptr), xylSuccess);
      for (const std::int32_t n : numbers) ASSERT_EQ(n, 0);  // 5 * (-1 + 0 + 1)
    }
    float x = 1;
    EXPECT_EQ(xylAllReduce(&x, &x, 1, xylFloat32, integral, comm, nullptr), xylInvalidArgument);
    EXPECT_TRUE(says(xylGetLastError(comm), "int32"));
    EXPECT_EQ(xylRedOpCreatePreMulSum(&scaled, &mine, xylFloat32, xylScalarDevice, comm), xylInvalidUsage);
    EXPECT_EQ(xylRedOpCreatePreMulSum(nullptr, &mine, xylFloat32, xylScalarDevice, comm), xylInvalidArgument);
    EXPECT_EQ(xylRedOpDestroy(integral, comm), xylSuccess);
    EXPECT_EQ(xylRedOpDestroy(integral, comm), xylInvalidArgument);
    EXPECT_EQ(xylRedOpDestroy(xylSum, comm), xylInvalidArgument);
    EXPECT_EQ(xylAllReduce(&x, &x, 1, xylInt32, integral, comm, nullptr), xylInvalidArgument);
  });
}

// The ranks differ in something; all are told, and nobody's output is touched. In small calls with a root some may
// have returned before anybody could know: they are told by the next call.
TEST(calls_that_differ, are_refused_with_outputs_untouched) {
  constexpr bool goes_one_way[] = {false, false, true, false, true, true, false, true};
  const std::vector<std::function<xylResult_t(bool, const void*, void*, xylComm_t)>> cases = {
      [](bool odd, auto in, auto out, auto c) { return xylAllGather(in, out, 10 + odd, xylInt8, c, nullptr); },
      [](bool odd, auto in, auto out, auto c) {
        return xylAllGather(in, out, 10, odd ? xylInt8 : xylUint8, c, nullptr);
      },
      [](bool odd, auto in, auto out, auto c) { return xylBroadcast(in, out, 300, xylInt8, odd, c, nullptr); },
      [](bool odd, auto in, auto out, auto c) {
        return xylReduceScatter(in, out, 20, xylInt8, odd ? xylMax : xylSum, c, nullptr);
      },
      [](bool odd, auto in, auto out, auto c) { return xylReduce(in, out, 20, xylInt8, xylSum, odd, c, nullptr); },
      [](bool odd, auto in, auto out, auto c) { return xylScatter(in, out, 20, xylInt8, odd, c, nullptr); },
      [](bool odd, auto in, auto out, auto c) {
        return odd ? xylAlltoAll(in, out, 10, xylInt8, c, nullptr) : xylAllGather(in, out, 10, xylInt8, c, nullptr);
      },
      [](bool odd, auto in, auto out, auto c) {
        return odd ? xylBarrier(c, nullptr) : xylGather(in, out, 10, xylInt8, 0, c, nullptr);
      },
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    with_ranks(3, [&](int rank, test_communicator& comm) {
      guarded in(2000, 0), out(2000, 0);
      xylResult_t code = cases[i](rank == 1, in.data(), out.data(), comm);
      const bool returned = goes_one_way[i] && code == xylSuccess;
      if (returned) code = xylBarrier(comm, nullptr);
      EXPECT_EQ(code, xylInvalidUsage) << "case " << i;
      EXPECT_TRUE(says(xylGetLastError(comm), "differ")) << xylGetLastError(comm);
      if (!returned) out.expect_untouched();
    });
}

TEST(arguments, of_the_collectives_are_checked) {
  with_ranks(2, [&](int, test_communicator& comm) {
    alignas(8) char a[64] = {}, b[64] = {};
    const auto refused = [&](xylResult_t code, const char* why) {
      EXPECT_EQ(code, xylInvalidArgument) << why;
      EXPECT_TRUE(says(xylGetLastError(comm), why)) << xylGetLastError(comm);
    };
    refused(xylBroadcast(a, b, 1, xylInt8, 2, comm, nullptr), "root 2");
    refused(xylReduce(a, b, 1, xylInt8, xylSum, -1, comm, nullptr), "root -1");
    refused(xylSend(a, 1, xylInt8, 7, comm, nullptr), "peer 7");
    refused(xylAllGather(a, b + 1, 1, xylInt32, comm, nullptr), "recvbuff is not aligned");
    refused(xylAllGather(nullptr, b, 1, xylInt32, comm, nullptr), "sendbuff is NULL");
    refused(xylAllGather(a, b, 1, static_cast<xylDataType_t>(40), comm, nullptr), "40 is not a data type");
    refused(xylReduceScatter(a, b, 1, xylInt8, static_cast<xylRedOp_t>(12), comm, nullptr),
            "12 is not an operation");
    refused(xylReduceScatter(a, b, 1, xylFloat32, xylBitAnd, comm, nullptr), "bitwise");
    refused(xylAlltoAll(a, b, static_cast<std::size_t>(-1), xylInt8, comm, nullptr), "exceed");
    EXPECT_EQ(xylBarrier(comm, nullptr), xylSuccess);
  });
}

}  // namespace
}  // namespace xyl::test
