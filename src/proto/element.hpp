// SPDX-License-Identifier: BSD-3-Clause
//
// Element types as they lie in memory, what they are added up in, and the conversion between the two, eight bytes
// at a time (what a packet carries). A space may bring a codec of its own that uses its machine's instructions; the
// values must be those of `portable_codec`.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "proto/small_float.hpp"

namespace xyl {

// Storage of formats that C++20 has no type for. The format is the type; the bits are all it holds.
template <class Format, class Bits>
struct stored_float {
  using format = Format;
  Bits bits;
};
using float16 = stored_float<binary16, std::uint16_t>;
using bfloat16 = stored_float<bfloat16_format, std::uint16_t>;
using float8_e4m3 = stored_float<fp8_e4m3, std::uint8_t>;
using float8_e5m2 = stored_float<fp8_e5m2, std::uint8_t>;

template <class T>
struct element_traits {
  using accumulator = T;
  static constexpr bool is_integer = std::is_integral_v<T>;
  static XYL_FN T decode(T x) { return x; }
  static XYL_FN T encode(T x) { return x; }
};

template <class Format, class Bits>
struct element_traits<stored_float<Format, Bits>> {
  using accumulator = float;
  static constexpr bool is_integer = false;
  static XYL_FN float decode(stored_float<Format, Bits> x) { return Format::decode(x.bits); }
  static XYL_FN stored_float<Format, Bits> encode(float x) { return {static_cast<Bits>(Format::encode(x))}; }
};

template <class T>
struct portable_codec {
  using element = T;
  using accumulator = typename element_traits<T>::accumulator;
  static constexpr int per_word = static_cast<int>(8 / sizeof(T));

  static XYL_FN void decode(std::uint64_t word, accumulator (&out)[per_word]) {
    T in[per_word];
    std::memcpy(in, &word, sizeof word);
    for (int i = 0; i < per_word; ++i) out[i] = element_traits<T>::decode(in[i]);
  }
  static XYL_FN std::uint64_t encode(const accumulator (&in)[per_word]) {
    T out[per_word];
    for (int i = 0; i < per_word; ++i) out[i] = element_traits<T>::encode(in[i]);
    std::uint64_t word;
    std::memcpy(&word, out, sizeof word);
    return word;
  }
};

}  // namespace xyl
