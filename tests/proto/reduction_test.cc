// SPDX-License-Identifier: BSD-3-Clause
//
// Operations on accumulators: integers wrap, averages divide in a type that holds the divisor, minimum and maximum
// prefer a number to a NaN, and small formats add up in fp32.
#include "proto/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "exec/dispatch.hpp"
#include "proto/chosen_reduction.hpp"

namespace xyl::test {
namespace {

template <class T, class Operation>
T combine(T a, T b) {
  return reduction<portable_codec<T>, Operation>{}.combine(a, b);
}
template <class T>
T finish(T sum, std::uint32_t divisor) {
  reduction<portable_codec<T>, operation::sum> average;
  average.divisor = divisor;
  return average.finish(sum);
}

template <class T>
class integers : public testing::Test {};
using integer_types = testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                                     std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(integers, integer_types);

// Modulo 2^bits, computed in 128 bits.
template <class T>
T wrapped(__int128 exact) {
  return static_cast<T>(static_cast<unsigned __int128>(exact));
}

TYPED_TEST(integers, wrap) {
  using T = TypeParam;
  using limits = std::numeric_limits<T>;
  const T values[] = {0,
                      1,
                      2,
                      3,
                      7,
                      static_cast<T>(-1),
                      static_cast<T>(-2),
                      limits::min(),
                      limits::max(),
                      static_cast<T>(limits::max() - 1),
                      static_cast<T>(limits::max() / 2 + 1),
                      static_cast<T>(0x55)};
  for (const T a : values)
    for (const T b : values) {
      EXPECT_EQ((combine<T, operation::sum>(a, b)), wrapped<T>(static_cast<__int128>(a) + b));
      // Of 64-bit factors the product fits in 128 bits once both are taken modulo 2^64.
      EXPECT_EQ((combine<T, operation::prod>(a, b)),
                static_cast<T>(static_cast<unsigned __int128>(static_cast<std::uint64_t>(a)) *
                               static_cast<std::uint64_t>(b)));
      EXPECT_EQ((combine<T, operation::max>(a, b)), a < b ? b : a);
      EXPECT_EQ((combine<T, operation::min>(a, b)), b < a ? b : a);
      EXPECT_EQ((combine<T, operation::bit_and>(a, b)), static_cast<T>(a & b));
      EXPECT_EQ((combine<T, operation::bit_or>(a, b)), static_cast<T>(a | b));
      EXPECT_EQ((combine<T, operation::bit_xor>(a, b)), static_cast<T>(a ^ b));
    }
}

TYPED_TEST(integers, averages_round_towards_zero) {
  using T = TypeParam;
  using limits = std::numeric_limits<T>;
  const T sums[] = {0, 1, 5, 100, static_cast<T>(-1), static_cast<T>(-100), limits::min(), limits::max()};
  for (const T sum : sums)
    for (const std::uint32_t divisor : {1u, 2u, 3u, 8u, 127u, 128u, 200u, 255u, 256u, 70000u})
      EXPECT_EQ(finish<T>(sum, divisor), static_cast<T>(static_cast<__int128>(sum) / divisor)) << divisor;
}

template <class T>
class floats : public testing::Test {};
using float_types = testing::Types<float, double>;
TYPED_TEST_SUITE(floats, float_types);

// An operation chosen at run time has the values of the one chosen by type.
TYPED_TEST(floats, operations_chosen_at_run_time) {
  using T = TypeParam;
  using limits = std::numeric_limits<T>;
  const T values[] = {
      0, -T{0}, 1, -1, T{1.5}, limits::max(), limits::lowest(), limits::infinity(), limits::quiet_NaN()};
  reduction_operations::for_each([&](auto op, int) {
    if constexpr (!decltype(op)::integers_only) {
      const chosen_reduction<portable_codec<T>> chosen(op.code, 3);
      for (const T a : values)
        for (const T b : values) {
          T acc[1] = {a};
          const T value[1] = {b};
          chosen.accumulate(acc, value);
          const T plain = combine<T, typename decltype(op)::type>(a, b);
          EXPECT_TRUE(std::memcmp(&acc[0], &plain, sizeof plain) == 0 || (plain != plain && acc[0] != acc[0]))
              << a << " and " << b << ": " << acc[0] << ", not " << plain;
        }
      EXPECT_EQ(chosen.finish(T{7}), T{7} / 3);
    }
  });
}

TYPED_TEST(floats, minimum_and_maximum_prefer_numbers) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN(), infinity = std::numeric_limits<T>::infinity();
  for (const T x : {T(0), T(-3), T(4), infinity, -infinity}) {
    EXPECT_EQ((combine<T, operation::max>(nan, x)), x);
    EXPECT_EQ((combine<T, operation::max>(x, nan)), x);
    EXPECT_EQ((combine<T, operation::min>(nan, x)), x);
    EXPECT_EQ((combine<T, operation::min>(x, nan)), x);
  }
  EXPECT_TRUE(std::isnan((combine<T, operation::max>(nan, nan))));
  EXPECT_TRUE(std::isnan((combine<T, operation::min>(nan, nan))));
  EXPECT_EQ((combine<T, operation::max>(T(2), T(3))), T(3));
  EXPECT_EQ((combine<T, operation::min>(T(2), T(3))), T(2));
  EXPECT_TRUE(std::isnan((combine<T, operation::sum>(nan, T(1)))));
  EXPECT_TRUE(std::isnan((combine<T, operation::prod>(T(1), nan))));
}

TYPED_TEST(floats, averages) {
  using T = TypeParam;
  EXPECT_EQ(finish<T>(T(10), 4), T(2.5));
  EXPECT_EQ(finish<T>(T(1), 3), T(1) / T(3));
  EXPECT_EQ(finish<T>(T(-7), 1), T(-7));
}

// A running sum in the element type would stay where it is: each step is less than half of the last place.
TEST(small_formats, accumulate_in_fp32) {
  using red = reduction<portable_codec<bfloat16>, operation::sum>;
  static_assert(std::is_same_v<red::accumulator, float>);
  float sum = 256;
  for (int i = 0; i < 4; ++i) sum = red{}.combine(sum, 0.5f);
  EXPECT_EQ(element_traits<bfloat16>::decode(element_traits<bfloat16>::encode(sum)), 258.f);
}

}  // namespace
}  // namespace xyl::test
