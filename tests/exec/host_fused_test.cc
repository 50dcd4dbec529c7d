// SPDX-License-Identifier: BSD-3-Clause
//
// The fused allreduce with the library's own loops over rows of host memory: in every instruction set the same bits
// as the text that the GPU runs, which is run here by one thread, and both against the reference.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "exec/host_rank.hpp"
#include "proto/fused_machine.hpp"

namespace xyl::test {
namespace {

using host_machine = fused_machine_of<host_rank, host_call>;
constexpr fused_form forms[] = {fused_form::one_shot, fused_form::two_shot, fused_form::one_shot_pull,
                                fused_form::two_shot_pull};

template <class Machine, class T>
std::vector<fused_data<T>> run(const fused_case& f, const fused_grid& g, fused_form form,
                               std::vector<fused_data<T>> data) {
  const std::uint64_t row = f.hidden * sizeof(T);
  Machine machine(g, (row * 2 + 256) * g.rows, (row * 2 + 64) * g.rows + 4096);
  EXPECT_TRUE(machine.run(form, data));
  for (const auto& d : data) {
    EXPECT_EQ(d.check_untouched(), "");
    EXPECT_TRUE(d.same_outputs(data[0])) << "rank " << d.rank;
  }
  return data;
}

template <class T>
void same_as_the_gpu_text(const fused_case& f, const fused_grid& g) {
  std::vector<fused_data<T>> data;
  for (int r = 0; r < g.ranks; ++r) data.emplace_back(f, r, g.ranks);
  for (const fused_form form : forms) {
    if (!goes_in(form, f)) continue;
    const auto expected = run<fused_machine>(f, g, form, data);
    const auto found = run<host_machine>(f, g, form, data);
    if (f.hidden < 1000) {  // it takes long, and that text has tests of its own
      EXPECT_EQ(found[0].check(), "");
    }
    for (std::size_t r = 0; r < found.size(); ++r)
      EXPECT_TRUE(found[r].same_outputs(expected[r]) && found[r].residual_out == expected[r].residual_out)
          << "rank " << r << " pattern " << static_cast<int>(f.pattern) << ", " << f.tokens << " x " << f.hidden
          << ", form " << static_cast<int>(form) << ", " << sizeof(T) << " bytes";
  }
}

template <class T>
void same_bits_in_every_case() {
  std::uint64_t seed = sizeof(T);
  // Types differ in how they are read and rounded; all lengths are for one of them.
  const std::vector<unsigned> lengths = std::is_same_v<T, bfloat16>
                                            ? std::vector<unsigned>{128, 1152, 8, 2880, 16384}
                                            : std::vector<unsigned>{8, 640};
  for (int p = 0; p <= static_cast<int>(fused_pattern::nvfp4_swizzled); ++p)
    for (const unsigned hidden : lengths) {
      fused_case f;
      f.pattern = static_cast<fused_pattern>(p);
      if (is_nvfp4(f.pattern) && sizeof(T) == 4) continue;
      if (hidden % 16 != 0 && is_nvfp4(f.pattern)) continue;
      if (hidden % 128 != 0 && f.pattern == fused_pattern::fp8_per_group) continue;
      f.hidden = hidden;
      f.tokens = hidden > 1152 ? 2 : 5;
      f.seed = ++seed;
      f.gemma = seed % 2;
      f.weight_is_float = seed % 3 == 0;
      f.in_place = seed % 4 == 0;
      f.experts = seed % 5 == 0 ? 3 : 0;
      f.with_residual = seed % 7 != 0;
      f.with_residual_out = seed % 11 != 0;
      f.residual_sharded = seed % 6 == 0;
      fused_grid g;
      g.ranks = 2 + static_cast<int>(seed % 3);
      g.rows = 2;
      same_as_the_gpu_text<T>(f, g);
      if (!quantises(f.pattern)) continue;
      f.with_output = false;
      f.in_place = false;
      f.residual_sharded = !f.residual_sharded;
      same_as_the_gpu_text<T>(f, g);
    }
}

class host_fused_isa : public testing::TestWithParam<instruction_set> {
 protected:
  void SetUp() override {
    if (choose_host_rows(GetParam()).isa != GetParam()) GTEST_SKIP() << "this processor lacks the instruction set";
    wanted_instructions = GetParam();
  }
};

TEST_P(host_fused_isa, bfloat16_as_the_gpu_text) { same_bits_in_every_case<bfloat16>(); }
TEST_P(host_fused_isa, float16_as_the_gpu_text) { same_bits_in_every_case<float16>(); }
TEST_P(host_fused_isa, float32_as_the_gpu_text) { same_bits_in_every_case<float>(); }

// Rows of any bits: infinities, NaNs, subnormal numbers. One NaN is as good as another.
TEST_P(host_fused_isa, rows_of_any_bits) {
  const host_rows& isa = choose_host_rows(GetParam());
  std::mt19937 random(11);
  const auto same = [](float a, float b) { return float_bits(a) == float_bits(b) || (a != a && b != b); };
  constexpr std::size_t n = 264;
  for (int round = 0; round < 300; ++round) {
    alignas(16) std::uint32_t words[2][n];
    for (auto& row : words)
      for (std::uint32_t& word : row) {
        word = static_cast<std::uint32_t>(random());
        // Most rows without what makes all of them NaN.
        if (round % 3 != 0 && (word & 0x7f800000u) == 0x7f800000u) word &= 0x800fffffu;
      }
    float x[n];
    const std::byte* sources[] = {reinterpret_cast<const std::byte*>(words[0]),
                                  reinterpret_cast<const std::byte*>(words[1])};
    isa.float16.sum(x, sources, 2, n);
    const auto element = [&](int row, std::size_t i) {
      std::uint16_t bits;
      std::memcpy(&bits, sources[row] + 2 * i, 2);
      return binary16::decode(bits);
    };
    for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(same(x[i], element(0, i) + element(1, i))) << i;

    std::memcpy(x, words[0], sizeof x);
    if (round % 2)
      for (float& value : x) value = std::fabs(value) < 0x1p60f ? value : 1.0f;
    std::uint32_t leaf[n / 8];
    for (std::size_t i = 0; i < n / 8; ++i) {
      float piece[8];
      std::memcpy(piece, x + 8 * i, sizeof piece);
      leaf[i] = float_bits(sum_of_squares(piece));
    }
    ASSERT_TRUE(same(isa.float32.squares(x, n), bits_float(halving<add_squares>(leaf, n / 8))));

    float rounded[n];
    std::memcpy(rounded, x, sizeof x);
    alignas(16) std::byte out[2 * n];
    isa.bfloat16.round(rounded, sources[1], out, n);
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t bits, stored;
      std::memcpy(&bits, sources[1] + 2 * i, 2);
      std::memcpy(&stored, out + 2 * i, 2);
      const float expected = bfloat16_format::decode(bfloat16_format::encode(x[i] + bfloat16_format::decode(bits)));
      ASSERT_TRUE(same(rounded[i], expected)) << i;
      ASSERT_TRUE(same(bfloat16_format::decode(stored), expected)) << i;
    }

    fused_work w;
    w.hidden = 256;
    for (const fused_pattern p : {fused_pattern::fp8_static, fused_pattern::fp8_per_token,
                                  fused_pattern::fp8_per_group, fused_pattern::nvfp4_linear}) {
      w.pattern = p;
      std::byte values[256], scales[64];
      isa.float32.quantise(x, w, 0.7f, values, scales);
      const unsigned width = scale_width(p) ? scale_width(p) : w.hidden;
      for (unsigned at = 0; at < w.hidden; at += width) {
        std::uint32_t largest = 0;
        for (unsigned i = at; i < at + width; ++i)
          largest = larger_magnitude::combine(largest, magnitude_bits(x[i]));
        const nvfp4_scale small = nvfp4_scale_of(0.7f, largest);
        const float scale = p == fused_pattern::fp8_static ? 0.7f : fp8_scale(largest);
        if (is_nvfp4(p)) {
          ASSERT_EQ(static_cast<std::uint32_t>(scales[at / 16]), small.stored);
        } else if (p != fused_pattern::fp8_static) {
          float found;
          std::memcpy(&found, scales + at / width * 4, 4);
          ASSERT_TRUE(same(found, scale));
        }
        for (unsigned i = at; i < at + width; ++i) {
          const auto code = [&](float v) {
            return is_nvfp4(p) ? portable_quantiser::e2m1(v) : fp8_e4m3::encode(v);
          };
          const auto byte = static_cast<std::uint32_t>(values[is_nvfp4(p) ? i / 2 : i]);
          const std::uint32_t found = is_nvfp4(p) ? byte >> 4 * (i % 2) & 15 : byte;
          const std::uint32_t expected = code(x[i] * (is_nvfp4(p) ? small.multiplier : 1.0f / scale));
          const bool both_nan = !is_nvfp4(p) && (found & 0x7f) == 0x7f && (expected & 0x7f) == 0x7f;
          ASSERT_TRUE(found == expected || both_nan) << "pattern " << static_cast<int>(p) << ", element " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(all, host_fused_isa,
                         testing::Values(instruction_set::baseline, instruction_set::avx2,
                                         instruction_set::avx512));

// The one that processors without the instruction use.
TEST(host_fused_arithmetic, multiply_add_in_double_rounds_once) {
  std::mt19937 random(7);
  const auto any = [&] { return bits_float(static_cast<std::uint32_t>(random())); };
  const auto near = [&](float scale) {
    return std::ldexp(1.0f + static_cast<float>(random() >> 9) * 0x1p-23f, static_cast<int>(random() % 60) - 30) *
           (random() % 2 ? scale : -scale);
  };
  unsigned twice_would_differ = 0;
  for (int i = 0; i < 2000000; ++i) {
    float a = any(), b = any(), c = any();
    if (i % 4 == 1) a = near(1), b = near(1), c = near(1);
    if (i % 4 == 2) {  // so close to the middle between two results that double holds the middle itself
      const float step = static_cast<float>(1 + random() % 64) * 0x1p-23f;
      const int exponent = static_cast<int>(random() % 60) - 30;
      a = std::ldexp(1 + step, exponent - 24), b = random() % 2 ? 1 - step : step - 1;
      c = std::ldexp(1 + static_cast<float>(random() >> 9 | 1) * 0x1p-23f, exponent);
    }
    if (i % 4 == 3) a = near(0x1p-70f), b = near(0x1p-70f), c = random() % 2 ? 0.0f : near(0x1p-140f);
    const float expected = std::fma(a, b, c), found = multiply_add_in_double(a, b, c);
    if (expected != expected)
      ASSERT_TRUE(found != found) << a << " " << b << " " << c;
    else
      ASSERT_EQ(float_bits(found), float_bits(expected)) << std::hexfloat << a << " " << b << " " << c;
    const float twice = static_cast<float>(static_cast<double>(a) * b + c);
    twice_would_differ += expected == expected && float_bits(twice) != float_bits(expected);
  }
  EXPECT_GT(twice_would_differ, 0u);
}

}  // namespace
}  // namespace xyl::test
