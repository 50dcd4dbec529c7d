// SPDX-License-Identifier: BSD-3-Clause
//
// Integers and fp64 numbers side by side in words: every operation, chosen with the type at run time, has the
// values of the one chosen by type, in every place of a word and whatever its neighbours are.
#include "proto/packed_reduction.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "exec/dispatch.hpp"

namespace xyl::test {
namespace {

template <class T>
inline constexpr int places = 8 / sizeof(T);

template <class T>
std::uint64_t word_of(const T (&values)[places<T>]) {
  std::uint64_t word;
  std::memcpy(&word, values, sizeof word);
  return word;
}

template <class T>
bool are_equal(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

// In each place another pair, so that all meet in all places.
template <class T, class Function>
void expect_everywhere(const std::vector<T>& values, const packed_reduction& red, Function wanted) {
  const std::size_t n = values.size();
  for (std::size_t i = 0; i < n * n; ++i) {
    T a[places<T>], b[places<T>], got[places<T>];
    for (std::size_t p = 0; p < places<T>; ++p) {
      a[p] = values[(i + 5 * p) % n];
      b[p] = values[(i / n + 3 * p) % n];
    }
    std::uint64_t acc[1] = {word_of(a)};
    const std::uint64_t value[1] = {word_of(b)};
    red.accumulate(acc, value);
    std::memcpy(got, acc, sizeof got);
    for (int p = 0; p < places<T>; ++p)
      ASSERT_TRUE(are_equal(got[p], wanted(a[p], b[p])))
          << +a[p] << " and " << +b[p] << " in place " << p << ": " << +got[p] << ", not " << +wanted(a[p], b[p]);
  }
}

template <class T>
std::vector<T> edges() {
  using limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, double>) {
    return {0, -0.0, 1, -1, 1.5, limits::max(), limits::lowest(), limits::infinity(), limits::quiet_NaN()};
  } else {
    std::vector<T> values;
    if constexpr (sizeof(T) == 1)
      for (int x = limits::min(); x <= limits::max(); ++x) values.push_back(static_cast<T>(x));
    else
      values = {0,
                1,
                3,
                static_cast<T>(-1),
                static_cast<T>(-2),
                limits::min(),
                static_cast<T>(limits::min() + 1),
                limits::max(),
                static_cast<T>(limits::max() - 1),
                static_cast<T>(limits::max() / 2 + 1),
                static_cast<T>(0x5a)};
    return values;
  }
}

template <class F>
void for_each_packed_type(F f) {
  element_types::for_each([&](auto entry, int) {
    using T = typename decltype(entry)::type;
    if constexpr (is_packed<T>) f.template operator()<T>(entry.code);
  });
}

TEST(packed_reduction, has_the_values_of_every_operation_for_every_type) {
  int types = 0;
  for_each_packed_type([&]<class T>(xylDataType_t type) {
    ++types;
    reduction_operations::for_each([&](auto op, int) {
      using entry = decltype(op);
      if constexpr (std::is_integral_v<T> || !entry::integers_only) {
        SCOPED_TRACE(testing::Message() << "type " << type << " operation " << entry::code);
        const reduction<portable_codec<T>, typename entry::type> plain;
        expect_everywhere(edges<T>(), packed_reduction(entry::code, type, 1),
                          [&](T a, T b) { return plain.combine(a, b); });
      }
    });
  });
  EXPECT_EQ(types, 9);
}

TEST(packed_reduction, averages_in_every_place) {
  for_each_packed_type([]<class T>(xylDataType_t type) {
    const std::vector<T> values = edges<T>();
    for (const std::uint32_t ranks : {1u, 2u, 3u, 8u, 64u}) {
      const packed_reduction red(xylAvg, type, ranks);
      reduction<portable_codec<T>, operation::sum> plain;
      plain.divisor = ranks;
      for (std::size_t i = 0; i < values.size(); ++i) {
        T sums[places<T>], got[places<T>];
        for (std::size_t p = 0; p < places<T>; ++p) sums[p] = values[(i + 7 * p) % values.size()];
        const std::uint64_t word = red.finish(word_of(sums));
        std::memcpy(got, &word, sizeof got);
        for (int p = 0; p < places<T>; ++p)
          ASSERT_TRUE(are_equal(got[p], plain.finish(sums[p])))
              << "type " << type << ": " << +sums[p] << " by " << ranks << " in place " << p << ": " << +got[p];
      }
    }
  });
}

}  // namespace
}  // namespace xyl::test
