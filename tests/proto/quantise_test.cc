// SPDX-License-Identifier: BSD-3-Clause
//
// The formats of the fused epilogue value by value, and its tree of sums.
#include "proto/quantise.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "proto/epilogue.hpp"
#include "proto/fused_reference.hpp"

namespace xyl::test {
namespace {

TEST(Quantise, E2m1RoundsToTheNearestAndHalfwayToEven) {
  for (unsigned code = 0; code < 8; ++code) {
    const auto value = static_cast<float>(small_value(code, 2, 1, 1));
    const auto next = code < 7 ? static_cast<float>(small_value(code + 1, 2, 1, 1)) : 7.0f;
    const float half = (value + next) / 2;
    for (const float x : {value, half, std::nextafter(half, 0.0f), std::nextafter(half, 9.0f)})
      for (const float signed_x : {x, -x})
        EXPECT_EQ(portable_quantiser::e2m1(signed_x), nearest_e2m1(signed_x)) << signed_x;
  }
  EXPECT_EQ(portable_quantiser::e2m1(0.75f), 2u);
  EXPECT_EQ(portable_quantiser::e2m1(5.0f), 6u);
  EXPECT_EQ(portable_quantiser::e2m1(-1e30f), 15u);
  EXPECT_EQ(portable_quantiser::e2m1(std::numeric_limits<float>::infinity()), 7u);
  EXPECT_EQ(portable_quantiser::e2m1(-std::numeric_limits<float>::quiet_NaN()), 7u);
  EXPECT_EQ(portable_quantiser::e2m1x2(1.0f, -6.0f), 0xf2u);
}

TEST(Quantise, E4m3PairsHaveTheFirstInTheLowByte) {
  EXPECT_EQ(portable_quantiser::e4m3x2(1.0f, -448.0f), 0xfe38u);
  for (int i = -2000; i <= 2000; ++i) {
    const float x = static_cast<float>(i) * 0.3125f;
    EXPECT_EQ(portable_quantiser::e4m3x2(x, 0.0f), nearest_e4m3(x)) << x;
  }
}

TEST(Quantise, AnFp8ScaleHasAFiniteInverse) {
  EXPECT_EQ(fp8_scale(0), 0x1p-126f);
  EXPECT_EQ(fp8_scale(float_bits(1e-38f)), 0x1p-126f);
  EXPECT_EQ(fp8_scale(float_bits(448.0f)), 1.0f);
  EXPECT_TRUE(std::isnan(fp8_scale(0x7fc00000u)));
}

TEST(Quantise, AnNvfp4BlockOfZerosIsZero) {
  const nvfp4_scale zero = nvfp4_scale_of(1000.0f, 0);
  EXPECT_EQ(zero.stored, 0u);
  EXPECT_EQ(zero.multiplier, 0.0f);
  const nvfp4_scale one = nvfp4_scale_of(2.0f, float_bits(6.0f));
  EXPECT_EQ(one.stored, fp8_e4m3::encode(2.0f));
  EXPECT_EQ(one.multiplier, 1.0f);
}

TEST(Quantise, SwizzledScalesFillTheirTilesOnce) {
  // By hand: row 33 is the second of the rows that share 16 bytes with row 1; block 5 begins the second tile's
  // second column.
  EXPECT_EQ(swizzled_scale_offset(0, 0, 3), 0u);
  EXPECT_EQ(swizzled_scale_offset(1, 0, 3), 16u);
  EXPECT_EQ(swizzled_scale_offset(33, 5, 3), 512u + 16u + 4u + 1u);
  EXPECT_EQ(swizzled_scale_offset(128, 0, 3), 3u * 512u);
  std::set<std::uint64_t> seen;
  for (unsigned row = 0; row < 256; ++row)
    for (unsigned block = 0; block < 12; ++block) seen.insert(swizzled_scale_offset(row, block, 3));
  EXPECT_EQ(seen.size(), 256u * 12u);
  EXPECT_EQ(*seen.rbegin(), 256u * 12u - 1);
}

// The definition: a range is the sum of its halves, a pair one fused step.
TEST(Epilogue, TheTreeIsThatOfHalves) {
  std::vector<float> x(most_hidden, 0.0f);
  for (unsigned n : {2u, 8u, 120u, 264u, 1024u, 2880u, 16384u}) {
    for (unsigned i = 0; i < most_hidden; ++i) x[i] = i < n ? decoded(fused_value<float>(n + 9, 5, 2, i)) : 0.0f;
    const std::function<float(unsigned, unsigned)> of_range = [&](unsigned begin, unsigned size) {
      if (size == 2) return std::fma(x[begin + 1], x[begin + 1], x[begin] * x[begin]);
      return of_range(begin, size / 2) + of_range(begin + size / 2, size / 2);
    };
    const float expected = of_range(0, most_hidden);
    const auto by_pieces = [&]<int E>(std::integral_constant<int, E>) {
      std::vector<std::uint32_t> leaf;
      for (unsigned i = 0; i < n; i += E) {
        float piece[E] = {};
        for (unsigned k = 0; k < E && i + k < n; ++k) piece[k] = x[i + k];
        leaf.push_back(float_bits(sum_of_squares(piece)));
      }
      return bits_float(halving<add_squares>(leaf.data(), static_cast<unsigned>(leaf.size())));
    };
    EXPECT_EQ(by_pieces(std::integral_constant<int, 2>()), expected) << n;
    EXPECT_EQ(by_pieces(std::integral_constant<int, 4>()), expected) << n;
    EXPECT_EQ(by_pieces(std::integral_constant<int, 8>()), expected) << n;
  }
}

}  // namespace
}  // namespace xyl::test
