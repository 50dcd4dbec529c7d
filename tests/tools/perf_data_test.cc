// SPDX-License-Identifier: BSD-3-Clause
//
// The promises of perf_data.hpp, for every type, operation and number of ranks: results do not depend on the order
// of combination, not even with partial results rounded to the element type, and a mistake of the usual kinds
// shows.
#include "tools/perf_data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "proto/reduction.hpp"
#include "tools/perf_types.hpp"

namespace xyl {
namespace {

constexpr std::size_t count = 400;
constexpr int rank_numbers[] = {1, 2, 3, 8, 16, 64};

struct example {
  data_key key;
  std::size_t size;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::byte> reduced;
};

template <class F>
void for_every_example(F&& f) {
  for (const type_info& t : all_types())
    for (const operation_info& o : all_operations()) {
      if (!go_together(t, o)) continue;
      for (int ranks : rank_numbers) {
        SCOPED_TRACE(std::string(t.name) + " " + o.name + " " + std::to_string(ranks));
        example e{{t.type, o.operation, ranks, 7}, t.size, {}, {}};
        for (int r = 0; r < ranks; ++r) e.inputs.push_back(make_input(e.key, r, count));
        e.reduced = make_reduced(e.key, count);
        f(e);
      }
    }
}

// Combines in the order of `order`, rounding to the element type after each step, as a ring does.
template <class T, class Operation>
std::vector<std::byte> reduce_rounding(const example& e, const std::vector<int>& order) {
  reduction<portable_codec<T>, Operation> how;
  if (e.key.operation == xylAvg) how.divisor = static_cast<std::uint32_t>(e.key.ranks);
  std::vector<std::byte> out(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const auto load = [&](int rank) {
      T value;
      std::memcpy(&value, e.inputs[static_cast<std::size_t>(rank)].data() + i * sizeof(T), sizeof value);
      return element_traits<T>::decode(value);
    };
    auto total = load(order[0]);
    for (std::size_t k = 1; k < order.size(); ++k)
      total = element_traits<T>::decode(element_traits<T>::encode(how.combine(total, load(order[k]))));
    const T rounded = element_traits<T>::encode(how.finish(total));
    std::memcpy(out.data() + i * sizeof(T), &rounded, sizeof rounded);
  }
  return out;
}

template <class T>
std::vector<std::byte> reduce_rounding(const example& e, const std::vector<int>& order) {
  switch (e.key.operation) {
    case xylProd:
      return reduce_rounding<T, operation::prod>(e, order);
    case xylMax:
      return reduce_rounding<T, operation::max>(e, order);
    case xylMin:
      return reduce_rounding<T, operation::min>(e, order);
    case xylBitAnd:
      if constexpr (std::is_integral_v<T>) return reduce_rounding<T, operation::bit_and>(e, order);
      break;
    case xylBitOr:
      if constexpr (std::is_integral_v<T>) return reduce_rounding<T, operation::bit_or>(e, order);
      break;
    case xylBitXor:
      if constexpr (std::is_integral_v<T>) return reduce_rounding<T, operation::bit_xor>(e, order);
      break;
    default:
      break;
  }
  return reduce_rounding<T, operation::sum>(e, order);
}

std::vector<std::byte> reduce_rounding(const example& e, const std::vector<int>& order) {
  switch (e.key.type) {
    case xylInt8:
      return reduce_rounding<std::int8_t>(e, order);
    case xylUint8:
      return reduce_rounding<std::uint8_t>(e, order);
    case xylInt16:
      return reduce_rounding<std::int16_t>(e, order);
    case xylUint16:
      return reduce_rounding<std::uint16_t>(e, order);
    case xylInt32:
      return reduce_rounding<std::int32_t>(e, order);
    case xylUint32:
      return reduce_rounding<std::uint32_t>(e, order);
    case xylInt64:
      return reduce_rounding<std::int64_t>(e, order);
    case xylUint64:
      return reduce_rounding<std::uint64_t>(e, order);
    case xylFloat16:
      return reduce_rounding<float16>(e, order);
    case xylBfloat16:
      return reduce_rounding<bfloat16>(e, order);
    case xylFloat32:
      return reduce_rounding<float>(e, order);
    case xylFloat64:
      return reduce_rounding<double>(e, order);
    case xylFloat8e4m3:
      return reduce_rounding<float8_e4m3>(e, order);
    case xylFloat8e5m2:
      return reduce_rounding<float8_e5m2>(e, order);
  }
  return {};
}

TEST(perf_data, the_result_is_exact_in_any_order) {
  for_every_example([](const example& e) {
    std::vector<int> order(static_cast<std::size_t>(e.key.ranks));
    for (int start : {0, e.key.ranks / 2, e.key.ranks - 1}) {
      for (int i = 0; i < e.key.ranks; ++i) order[static_cast<std::size_t>(i)] = (start + i) % e.key.ranks;
      EXPECT_TRUE(reduce_rounding(e, order) == e.reduced) << "ring from rank " << start;
      std::reverse(order.begin(), order.end());
      EXPECT_TRUE(reduce_rounding(e, order) == e.reduced) << "backwards from rank " << start;
    }
    // All of one sign first: the largest partial sum there can be.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return e.inputs[static_cast<std::size_t>(a)][e.size - 1] < e.inputs[static_cast<std::size_t>(b)][e.size - 1];
    });
    EXPECT_TRUE(reduce_rounding(e, order) == e.reduced) << "sorted";
  });
}

double share_of_equal(const example& e, const std::vector<std::byte>& a, const std::vector<std::byte>& b,
                      std::size_t shift = 0) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i + shift < count; ++i)
    equal += std::memcmp(a.data() + (i + shift) * e.size, b.data() + i * e.size, e.size) == 0;
  return static_cast<double>(equal) / static_cast<double>(count - shift);
}

TEST(perf_data, a_displaced_or_left_over_result_shows) {
  for_every_example([](const example& e) {
    EXPECT_LT(share_of_equal(e, e.reduced, e.reduced, 1), 0.95);
    EXPECT_LT(share_of_equal(e, e.reduced, e.reduced, 256), 0.95);
    data_key later = e.key;
    ++later.salt;
    EXPECT_LT(share_of_equal(e, e.reduced, make_reduced(later, count)), 0.95);
  });
}

TEST(perf_data, every_rank_matters) {
  for_every_example([](const example& e) {
    if (e.key.ranks == 1) return;
    for (int missing = 0; missing < e.key.ranks; ++missing) {
      std::vector<int> order;
      for (int r = 0; r < e.key.ranks; ++r)
        if (r != missing) order.push_back(r);
      EXPECT_TRUE(reduce_rounding(e, order) != e.reduced) << "without rank " << missing;
    }
  });
}

TEST(perf_data, inputs_are_not_zero) {
  for_every_example([](const example& e) {
    const std::vector<std::byte> zero(e.size, std::byte{0});
    for (int r = 0; r < e.key.ranks; ++r) {
      std::size_t zeros = 0;
      const std::vector<std::byte>& input = e.inputs[static_cast<std::size_t>(r)];
      for (std::size_t i = 0; i < count; ++i)
        zeros += std::memcmp(input.data() + i * e.size, zero.data(), e.size) == 0;
      // The 8-bit types hold whole sums of no more than 8 and 16 ranks.
      EXPECT_TRUE(e.key.ranks > 8 || zeros == 0) << zeros;
      EXPECT_LT(zeros, count);
    }
  });
}

TEST(perf_data, elements_as_text) {
  const std::int64_t whole = -5'000'000'000;
  EXPECT_EQ(element_text(xylInt64, reinterpret_cast<const std::byte*>(&whole)), "-5000000000");
  const std::uint8_t small = 200;
  EXPECT_EQ(element_text(xylUint8, reinterpret_cast<const std::byte*>(&small)), "200");
  const std::uint16_t half = 0xc500;
  EXPECT_EQ(element_text(xylFloat16, reinterpret_cast<const std::byte*>(&half)), "-5");
}

}  // namespace
}  // namespace xyl
