// SPDX-License-Identifier: BSD-3-Clause
//
// The small floating-point formats against a reference that knows only the formats' definitions: every pattern is
// decoded with ldexp in double, and encoding is a search for the nearest of those values, ties to the even pattern.
// The same bits are wanted when the processor flushes subnormal numbers to zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "proto/element.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace xyl::test {
namespace {

// No subnormal results, no subnormal operands, as -ffast-math start-up code sets it; restored at the end.
class flush_to_zero {
 public:
#ifdef __SSE2__
  flush_to_zero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~flush_to_zero() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

// Not inlined, so that no arithmetic moves out of the mode it is meant for.
template <class Format>
[[gnu::noinline]] std::vector<std::uint32_t> encode_all(const std::vector<std::uint32_t>& in) {
  std::vector<std::uint32_t> out(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) out[i] = Format::encode(bits_float(in[i]));
  return out;
}
template <class Format>
[[gnu::noinline]] std::vector<std::uint32_t> decode_all(std::uint32_t patterns) {
  std::vector<std::uint32_t> out(patterns);
  for (std::uint32_t p = 0; p < patterns; ++p) out[p] = float_bits(Format::decode(p));
  return out;
}

struct format {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // else the largest magnitude pattern alone is NaN
  bool saturates;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  std::uint32_t sign() const { return 1u << (bits() - 1); }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  bool is_nan(std::uint32_t pattern) const {
    const std::uint32_t magnitude = pattern & (sign() - 1);
    return has_infinity ? magnitude > infinity() : magnitude == sign() - 1;
  }
  bool is_infinite(std::uint32_t pattern) const { return has_infinity && (pattern & (sign() - 1)) == infinity(); }
  std::uint32_t largest() const { return has_infinity ? infinity() - 1 : sign() - 2; }

  double value(std::uint32_t pattern) const {
    const std::uint32_t magnitude = pattern & (sign() - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const int mantissa = static_cast<int>(magnitude & ((1u << mantissa_bits) - 1));
    double v;
    if (is_nan(pattern))
      v = std::numeric_limits<double>::quiet_NaN();
    else if (is_infinite(pattern))
      v = std::numeric_limits<double>::infinity();
    else if (exponent == 0)
      v = std::ldexp(mantissa, 1 - bias - mantissa_bits);
    else
      v = std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
    return pattern & sign() ? -v : v;
  }
  // Halfway between a finite pattern and the next one, were the format unbounded. Exact in double.
  double midpoint(std::uint32_t pattern) const {
    const double here = value(pattern);
    return pattern == largest() ? here + (here - value(pattern - 1)) / 2 : (here + value(pattern + 1)) / 2;
  }
};

template <class Format>
struct described;
template <>
struct described<binary16> {
  static constexpr format as{5, 10, true, false};
};
template <>
struct described<bfloat16_format> {
  static constexpr format as{8, 7, true, false};
};
template <>
struct described<fp8_e4m3> {
  static constexpr format as{4, 3, false, true};
};
template <>
struct described<fp8_e5m2> {
  static constexpr format as{5, 2, true, true};
};

template <class Format>
class small_floats : public testing::Test {
 protected:
  static constexpr format f = described<Format>::as;

  small_floats() {
    for (std::uint32_t p = 0; p <= f.largest(); ++p) midpoints_.push_back(f.midpoint(p));
  }

  // Nearest, ties to even: the first pattern whose upper midpoint is not passed.
  std::uint32_t nearest(float x) const {
    const std::uint32_t sign = std::signbit(x) ? f.sign() : 0;
    const double magnitude = std::fabs(static_cast<double>(x));
    auto at = static_cast<std::uint32_t>(std::lower_bound(midpoints_.begin(), midpoints_.end(), magnitude) -
                                         midpoints_.begin());
    if (at <= f.largest() && midpoints_[at] == magnitude && at % 2 == 1) ++at;
    if (at > f.largest()) at = f.saturates ? f.largest() : f.infinity();
    return sign | at;
  }

  // Float bits in and pattern out, so that no comparison here suffers from the processor's mode.
  std::vector<std::uint32_t> inputs() const {
    std::vector<std::uint32_t> inputs;
    const auto add = [&](float x) {
      for (const float y : {x, std::nextafterf(x, 0), std::nextafterf(x, INFINITY)}) {
        inputs.push_back(float_bits(y));
        inputs.push_back(float_bits(-y));
      }
    };
    for (std::uint32_t p = 0; p <= f.largest(); ++p) {
      add(static_cast<float>(f.value(p)));
      add(static_cast<float>(midpoints_[p]));
    }
    for (const float x : {0.f, FLT_MIN, FLT_MAX, FLT_TRUE_MIN, 1e30f, 65504.f, 65520.f, 448.f, 464.f, 480.f,
                          57344.f, 61440.f, INFINITY})
      add(x);
    std::mt19937 random(1);
    for (int i = 0; i < 300'000; ++i) {
      const std::uint32_t any = random();
      inputs.push_back(any);
      // Most floats lie outside a small format's range; these do not.
      const int exponent = static_cast<int>(random() % 48) - 28;
      inputs.push_back(float_bits(std::ldexp(1 + static_cast<float>(any & 0x7fffff) * 0x1p-23f, exponent)));
    }
    return inputs;
  }

  void expect_encodes() const {
    const std::vector<std::uint32_t> in = inputs();
    std::vector<std::uint32_t> expected(in.size()), flushed;
    for (std::size_t i = 0; i < in.size(); ++i) expected[i] = nearest(bits_float(in[i]));
    const std::vector<std::uint32_t> plain = encode_all<Format>(in);
    {
      [[maybe_unused]] const flush_to_zero mode;
      flushed = encode_all<Format>(in);
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if ((in[i] & 0x7fffffffu) > 0x7f800000u) {
        ASSERT_TRUE(f.is_nan(plain[i])) << std::hex << in[i];
        ASSERT_TRUE((plain[i] & f.sign()) != 0 || in[i] >> 31 == 0) << std::hex << in[i];
      } else {
        ASSERT_EQ(plain[i], expected[i]) << std::hex << in[i] << " " << bits_float(in[i]);
      }
      ASSERT_EQ(flushed[i], plain[i]) << std::hex << in[i] << " " << bits_float(in[i]);
    }
  }

  std::vector<double> midpoints_;
};

using formats = testing::Types<binary16, bfloat16_format, fp8_e4m3, fp8_e5m2>;
TYPED_TEST_SUITE(small_floats, formats);

TYPED_TEST(small_floats, every_pattern_decodes) {
  const format f = TestFixture::f;
  const std::uint32_t patterns = 1u << f.bits();
  const std::vector<std::uint32_t> plain = decode_all<TypeParam>(patterns);
  std::vector<std::uint32_t> flushed;
  {
    [[maybe_unused]] const flush_to_zero mode;
    flushed = decode_all<TypeParam>(patterns);
  }
  for (std::uint32_t p = 0; p < patterns; ++p) {
    ASSERT_EQ(flushed[p], plain[p]) << p;
    if (f.is_nan(p)) {
      ASSERT_TRUE(std::isnan(bits_float(plain[p]))) << p;
    } else {
      ASSERT_EQ(static_cast<double>(bits_float(plain[p])), f.value(p)) << p;
      ASSERT_EQ(plain[p] >> 31, (p & f.sign()) ? 1u : 0u) << p;  // also of zero
    }
  }
}

TYPED_TEST(small_floats, every_pattern_survives_a_round_trip) {
  const format f = TestFixture::f;
  for (std::uint32_t p = 0; p < 1u << f.bits(); ++p) {
    const std::uint32_t again = TypeParam::encode(TypeParam::decode(p));
    if (f.is_nan(p))
      ASSERT_TRUE(f.is_nan(again)) << p;
    else if (f.is_infinite(p) && f.saturates)
      ASSERT_EQ(again, (p & f.sign()) | f.largest());
    else
      ASSERT_EQ(again, p);
  }
}

TYPED_TEST(small_floats, encoding_rounds_to_nearest_even) { this->expect_encodes(); }

#ifdef __SSE2__
TEST(flush_to_zero, is_in_force_where_it_is_asked_for) {
  volatile float smallest = FLT_MIN, half = 0.5f;
  EXPECT_NE(float_bits(smallest * half), 0u);
  const flush_to_zero mode;
  EXPECT_EQ(float_bits(smallest * half), 0u);
}
#endif

TEST(portable_codec, words_hold_their_elements_in_memory_order) {
  const float8_e4m3 in[8] = {{0x38}, {0xb8}, {0x40}, {0x08}, {0x01}, {0x7e}, {0xfe}, {0x00}};
  const float expected[8] = {1, -1, 2, 0x1p-6f, 0x1p-9f, 448, -448, 0};
  std::uint64_t word;
  std::memcpy(&word, in, sizeof word);
  float out[8];
  portable_codec<float8_e4m3>::decode(word, out);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]);
  EXPECT_EQ(portable_codec<float8_e4m3>::encode(out), word);
}

}  // namespace
}  // namespace xyl::test
