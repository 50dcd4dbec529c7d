// SPDX-License-Identifier: BSD-3-Clause
//
// FP8 whose format is chosen at run time has the values of the format by type: every number decoded, and fp32
// numbers of all magnitudes, halfway cases and their neighbours among them, encoded.
#include "proto/either_float8.hpp"

#include <gtest/gtest.h>

namespace xyl::test {
namespace {

template <class T>
class formats : public testing::Test {};
using fp8_formats = testing::Types<fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(formats, fp8_formats);

template <class Format>
const either_float8 either{std::is_same_v<Format, fp8_e5m2>};

TYPED_TEST(formats, chosen_at_run_time_decode_alike) {
  for (std::uint32_t x = 0; x < 256; ++x)
    for (int place = 0; place < 8; ++place) {
      float values[8];
      either<TypeParam>.decode(std::uint64_t{x} << 8 * place, values);
      const float wanted = TypeParam::decode(x);
      ASSERT_TRUE(float_bits(values[place]) == float_bits(wanted) ||
                  (wanted != wanted && values[place] != values[place]))
          << x << " is " << wanted << ", not " << values[place];
      EXPECT_EQ(float_bits(values[(place + 1) % 8]), 0u);
    }
}

TYPED_TEST(formats, chosen_at_run_time_encode_alike) {
  const auto check = [](std::uint32_t bits) {
    float values[8] = {};
    values[bits % 8] = bits_float(bits);
    const std::uint64_t word = either<TypeParam>.encode(values);
    ASSERT_EQ(word, std::uint64_t{TypeParam::encode(bits_float(bits))} << 8 * (bits % 8)) << std::hex << bits;
  };
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 1021) check(static_cast<std::uint32_t>(bits));
  // Halfway between neighbours, for each mantissa that is kept and one bit more.
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 1u << (TypeParam::shift - 1))
    for (const int beside : {-1, 0, 1})
      check(static_cast<std::uint32_t>(bits) + static_cast<std::uint32_t>(beside));
}

}  // namespace
}  // namespace xyl::test
