// SPDX-License-Identifier: BSD-3-Clause
//
// The loops of host_row.hpp. This file is compiled once per instruction set, with XYLEM_ISA naming it; the compiler
// vectorises the same code for what it was given. As in host_reduction_kernels.cc, everything has internal linkage
// but the table.
//
// Loops have no branches inside, and what a row's pattern decides is decided outside of them. Buffers that are one
// and the same are so at the same index, so that no iteration depends on another: hence the ivdep.
#include "exec/host_row.hpp"
#include "proto/element.hpp"

namespace xyl {
namespace {

// A block's values stay in the first-level cache, and a subtree of the epilogue's tree is one block or several.
constexpr std::size_t block = 128;

template <int N>
float halve(const float (&x)[N]) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    float half[N / 2];
    for (int i = 0; i < N / 2; ++i) half[i] = x[2 * i] + x[2 * i + 1];
    return halve(half);
  }
}

float squares_of_block(const float* x) {
  float pair[block / 2];
  for (std::size_t i = 0; i < block / 2; ++i)
    pair[i] = fused_multiply_add(x[2 * i + 1], x[2 * i + 1], x[2 * i] * x[2 * i]);
  return halve(pair);
}

// Zeros behind the row's end change no bit.
float squares(const float* x, std::size_t elements) {
  std::uint32_t leaf[most_hidden / block];
  unsigned leaves = 0;
  std::size_t at = 0;
  for (; at + block <= elements; at += block) leaf[leaves++] = float_bits(squares_of_block(x + at));
  if (at < elements) {
    float rest[block] = {};
    std::memcpy(rest, x + at, (elements - at) * sizeof(float));
    leaf[leaves++] = float_bits(squares_of_block(rest));
  }
  return bits_float(halving<add_squares>(leaf, leaves));
}

template <class T>
struct rows {
  using traits = element_traits<T>;

  static void sum(float* x, const std::byte* const* sources, int count_of_sources, std::size_t elements) {
    const T* const first = reinterpret_cast<const T*>(sources[0]);
    if (count_of_sources == 1) {
      for (std::size_t i = 0; i < elements; ++i) x[i] = traits::decode(first[i]);
      return;
    }
    const T* const second = reinterpret_cast<const T*>(sources[1]);
    for (std::size_t i = 0; i < elements; ++i) x[i] = traits::decode(first[i]) + traits::decode(second[i]);
    for (int s = 2; s < count_of_sources; ++s) {
      const T* const next = reinterpret_cast<const T*>(sources[s]);
      for (std::size_t i = 0; i < elements; ++i) x[i] = x[i] + traits::decode(next[i]);
    }
  }

  static void mix(std::byte* out, const fused_work& w, std::uint64_t token) {
    float x[most_hidden];
    const std::size_t row_bytes = std::size_t{w.hidden} * sizeof(T);
    if (w.input) {
      const std::byte* const input = w.input + token * row_bytes;
      sum(x, &input, 1, w.hidden);
    } else {
      std::memset(x, 0, w.hidden * sizeof(float));
    }
    for (std::uint32_t k = 0; k < w.experts; ++k) {
      const std::uint64_t row =
          w.expert_row ? static_cast<std::uint32_t>(w.expert_row[token * w.experts + k]) : k * w.tokens + token;
      if (row >= w.expert_rows) continue;  // an expert of another rank
      const float weight = w.expert_weight[token * w.experts + k];
      const T* const from = reinterpret_cast<const T*>(w.expert_output + row * row_bytes);
      for (std::size_t i = 0; i < w.hidden; ++i) x[i] = fused_multiply_add(weight, traits::decode(from[i]), x[i]);
    }
    store(x, out, w.hidden);
  }

  static void round(float* x, const std::byte* residual, std::byte* out, std::size_t elements) {
    const T* const more = reinterpret_cast<const T*>(residual);
    if (residual == nullptr && out == nullptr)
      round_each(x, nullptr, elements, [](std::size_t, float value) { return value; });
    else if (residual == nullptr)
      round_each(x, out, elements, [](std::size_t, float value) { return value; });
    else
      round_each(x, out, elements, [more](std::size_t i, float value) { return value + traits::decode(more[i]); });
  }

  static void norm(float* x, const fused_work& w, float inverse_rms, std::byte* out) {
    if (w.weight_is_float)
      norm_by<float>(x, w, inverse_rms, out);
    else
      norm_by<T>(x, w, inverse_rms, out);
  }

 private:
  static void store(const float* x, std::byte* out, std::size_t elements) {
    T* const to = reinterpret_cast<T*>(out);
#pragma GCC ivdep
    for (std::size_t i = 0; i < elements; ++i) to[i] = traits::encode(x[i]);
  }

  // x[i] = f(i, x[i]), rounded.
  template <class F>
  static void round_each(float* x, std::byte* out, std::size_t elements, F f) {
    if (out == nullptr) {
#pragma GCC ivdep
      for (std::size_t i = 0; i < elements; ++i) x[i] = traits::decode(traits::encode(f(i, x[i])));
      return;
    }
    T* const to = reinterpret_cast<T*>(out);
#pragma GCC ivdep
    for (std::size_t i = 0; i < elements; ++i) {
      const T rounded = traits::encode(f(i, x[i]));
      to[i] = rounded;
      x[i] = traits::decode(rounded);
    }
  }

  template <class Weight>
  static void norm_by(float* x, const fused_work& w, float inverse_rms, std::byte* out) {
    const Weight* const weight = reinterpret_cast<const Weight*>(w.weight);
    if (w.gemma)
      round_each(x, out, w.hidden, [=](std::size_t i, float value) {
        return normalised(value, inverse_rms, 1.0f + element_traits<Weight>::decode(weight[i]));
      });
    else
      round_each(x, out, w.hidden, [=](std::size_t i, float value) {
        return normalised(value, inverse_rms, element_traits<Weight>::decode(weight[i]));
      });
  }
};

std::uint32_t largest_of(const float* x, std::size_t elements) {
  // As signed numbers, which magnitudes are too: every instruction set compares those.
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    const auto one = static_cast<std::int32_t>(magnitude_bits(x[i]));
    largest = largest > one ? largest : one;
  }
  return static_cast<std::uint32_t>(largest);
}

void e4m3_values(const float* x, std::size_t elements, float multiplier, std::uint8_t* values) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < elements; ++i)
    values[i] = static_cast<std::uint8_t>(fp8_e4m3::encode(x[i] * multiplier));
}

void put_float(std::byte* scales, std::size_t at, float scale) {
  std::memcpy(scales + at * sizeof scale, &scale, sizeof scale);
}

void quantise_fp8(const float* x, const fused_work& w, std::uint8_t* values, std::byte* scales, std::size_t width) {
  for (std::size_t at = 0; at < w.hidden; at += width) {
    const float scale = fp8_scale(largest_of(x + at, width));
    e4m3_values(x + at, width, 1.0f / scale, values + at);
    put_float(scales, at / width, scale);
  }
}

void quantise_nvfp4(const float* x, const fused_work& w, float global_scale, std::uint8_t* values,
                    std::byte* scales) {
  constexpr std::size_t width = 16;
  for (std::size_t at = 0; at < w.hidden; at += width) {
    const nvfp4_scale of = nvfp4_scale_of(global_scale, largest_of(x + at, width));
    scales[at / width] = static_cast<std::byte>(of.stored);
    std::uint32_t code[width];
    for (std::size_t i = 0; i < width; ++i) code[i] = portable_quantiser::e2m1(x[at + i] * of.multiplier);
    for (std::size_t i = 0; i < width / 2; ++i)
      values[at / 2 + i] = static_cast<std::uint8_t>(code[2 * i] | code[2 * i + 1] << 4);
  }
}

void quantise_row(const float* x, const fused_work& w, float scale, std::byte* values, std::byte* scales) {
  std::uint8_t* const to = reinterpret_cast<std::uint8_t*>(values);
  if (is_nvfp4(w.pattern))
    quantise_nvfp4(x, w, scale, to, scales);
  else if (w.pattern == fused_pattern::fp8_static)
    e4m3_values(x, w.hidden, 1.0f / scale, to);
  else
    quantise_fp8(x, w, to, scales, w.pattern == fused_pattern::fp8_per_group ? 128 : w.hidden);
}

template <class T>
constexpr host_row_functions functions() {
  return {rows<T>::sum, rows<T>::mix, rows<T>::round, squares, rows<T>::norm, quantise_row};
}

}  // namespace

template <>
const host_rows& host_rows_of<instruction_set::XYLEM_ISA>() {
  static constinit const host_rows table = {instruction_set::XYLEM_ISA, functions<bfloat16>(), functions<float16>(),
                                            functions<float>()};
  return table;
}

}  // namespace xyl
