// SPDX-License-Identifier: BSD-3-Clause
//
// The reference that fused results are judged by, against numbers worked out by hand from xylem_fused.h.
#include "tools/perf_reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace xyl {
namespace {

TEST(perf_reference, activations_round_to_nearest_even) {
  EXPECT_EQ(round_activation(xylBfloat16, 257), 256) << "steps of 2, a tie";
  EXPECT_EQ(round_activation(xylBfloat16, 259), 260);
  EXPECT_EQ(round_activation(xylFloat16, 2049), 2048);
  EXPECT_EQ(round_activation(xylFloat32, 16777217.0f), 16777216.0f);
  for (xylDataType_t type : {xylFloat16, xylBfloat16, xylFloat32}) {
    std::byte buffer[12] = {};
    store_activation(type, buffer, 2, -1.5f);
    EXPECT_EQ(load_activation(type, buffer, 2), -1.5f);
    EXPECT_EQ(load_activation(type, buffer, 1), 0.0f);
  }
}

TEST(perf_reference, steps_between_values) {
  EXPECT_EQ(steps_between(xylBfloat16, 1, 1), 0);
  EXPECT_EQ(steps_between(xylBfloat16, 1, 1.0078125f), 1);
  EXPECT_EQ(steps_between(xylFloat16, 2, 1.9990234375f), 1);
  EXPECT_EQ(steps_between(xylFloat32, 1, std::nextafter(1.0f, 2.0f)), 1);
  EXPECT_EQ(steps_between(xylFloat16, 0x1p-24f, -0x1p-24f), 2) << "the smallest of either sign";
  EXPECT_EQ(steps_between(xylFloat16, 0.0f, -0.0f), 0);
  EXPECT_GT(steps_between(xylBfloat16, 1, NAN), 1000);
}

TEST(perf_reference, sum_residual_and_norm_of_a_row) {
  EXPECT_EQ(sum_rows({{1, 2}, {10, 20}, {100, 200}}), (std::vector<float>{111, 222}));
  EXPECT_EQ(add_residual(xylBfloat16, std::vector<float>{256, 3}, std::vector<float>{1, 4}),
            (std::vector<float>{256, 7}));
  // The mean square of 3 and 4 is 12.5.
  const std::vector<double> norm = norm_row(std::vector<float>{3, 4}, std::vector<float>{1, 2}, 3.5);
  EXPECT_DOUBLE_EQ(norm[0], 0.75);
  EXPECT_DOUBLE_EQ(norm[1], 2.0);
}

TEST(perf_reference, fp8) {
  const std::vector<float> row = {1, -1, 224, 448, 1000, 0};
  const quantised_row fixed = quantise_row(xylFusedFp8Static, row, 0.5f);
  EXPECT_EQ(fixed.bytes, (std::vector<std::uint8_t>{0x40, 0xc0, 0x7e, 0x7e, 0x7e, 0}))
      << "2, -2, 448, saturated, 0";
  EXPECT_TRUE(fixed.scales.empty());
  const quantised_row token = quantise_row(xylFusedFp8PerToken, std::vector<float>{2, -896}, 0);
  EXPECT_EQ(token.scales, std::vector<float>{2});
  EXPECT_EQ(token.bytes, (std::vector<std::uint8_t>{0x38, 0xfe}));
  const quantised_row nothing = quantise_row(xylFusedFp8PerToken, std::vector<float>(8), 0);
  EXPECT_EQ(nothing.scales, std::vector<float>{0x1p-126f});
  EXPECT_EQ(nothing.bytes, std::vector<std::uint8_t>(8));
  std::vector<float> groups(256, 1);
  groups[200] = 448;
  const quantised_row group = quantise_row(xylFusedFp8PerGroup128, groups, 0);
  EXPECT_EQ(group.scales, (std::vector<float>{1 / 448.0f, 1}));
  EXPECT_EQ(group.bytes[0], 0x7e);
  EXPECT_EQ(group.bytes[128], 0x38);
}

TEST(perf_reference, nvfp4) {
  // The largest magnitude is 6, so the block's scale is 1 and values stand for themselves.
  const std::vector<float> block = {0, .25f, .5f, .75f, 1, 1.25f, 1.5f, 1.75f, 2, 2.5f, 3, 3.5f, 4, 5, 6, -6};
  const quantised_row row = quantise_row(xylFusedNvfp4Linear, block, 1);
  EXPECT_EQ(row.block_scales, std::vector<std::uint8_t>{0x38});
  EXPECT_EQ(row.bytes, (std::vector<std::uint8_t>{0x00, 0x21, 0x22, 0x43, 0x44, 0x65, 0x66, 0xf7}));
  const quantised_row nothing = quantise_row(xylFusedNvfp4Linear, std::vector<float>(16), 336);
  EXPECT_EQ(nothing.block_scales, std::vector<std::uint8_t>{0});
  EXPECT_EQ(nothing.bytes, std::vector<std::uint8_t>(8));
}

TEST(perf_reference, swizzled_scales_have_a_place_each) {
  EXPECT_EQ(swizzled_at(0, 0, 128), 0u);
  EXPECT_EQ(swizzled_at(1, 0, 128), 16u);
  EXPECT_EQ(swizzled_at(32, 0, 128), 4u);
  EXPECT_EQ(swizzled_at(0, 3, 128), 3u);
  EXPECT_EQ(swizzled_at(0, 4, 128), 512u);
  EXPECT_EQ(swizzled_at(128, 0, 128), 1024u);
  for (std::size_t hidden : {16u, 208u}) {
    std::set<std::size_t> places;
    for (std::size_t token = 0; token < 130; ++token)
      for (std::size_t block = 0; block < hidden / 16; ++block) places.insert(swizzled_at(token, block, hidden));
    EXPECT_EQ(places.size(), 130 * (hidden / 16));
    EXPECT_LT(*places.rbegin(), scale_bytes(xylFusedNvfp4Swizzled128x4, 130, hidden));
  }
}

TEST(perf_reference, sizes_of_quantised_buffers) {
  EXPECT_EQ(quantised_bytes(xylFusedResidualRMSNorm, 3, 256), 0u);
  EXPECT_EQ(quantised_bytes(xylFusedFp8PerGroup128, 3, 256), 768u);
  EXPECT_EQ(quantised_bytes(xylFusedNvfp4Linear, 3, 256), 384u);
  EXPECT_EQ(scale_bytes(xylFusedFp8Static, 3, 256), 0u);
  EXPECT_EQ(scale_bytes(xylFusedFp8PerToken, 3, 256), 12u);
  EXPECT_EQ(scale_bytes(xylFusedFp8PerGroup128, 3, 256), 24u);
  EXPECT_EQ(scale_bytes(xylFusedNvfp4Linear, 3, 256), 48u);
  EXPECT_EQ(scale_bytes(xylFusedNvfp4Swizzled128x4, 3, 256), 2048u);
}

}  // namespace
}  // namespace xyl
