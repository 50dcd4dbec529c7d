// SPDX-License-Identifier: BSD-3-Clause
//
// How values stay exact:
//   integers     any bits for sums and products, which wrap, and for bit operations; the rest as floating point
//   sum, avg     whole numbers so small that their sum over all ranks is exact in the type; where the type is too
//                narrow for that even with ones, only so many ranks as it has room for contribute to an element
//   prod         plus or minus powers of two whose product stays a normal number
//   max, min     whole numbers
#include "tools/perf_data.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/result.hpp"
#include "proto/call.hpp"
#include "proto/reduction.hpp"

namespace xyl {
namespace {

// exact_integer: whole numbers up to this are exact. exponents: 2^-n to 2^n are normal numbers.
template <class T>
struct limits {
  static constexpr std::int64_t exact_integer =
      std::is_integral_v<T> ? std::min<std::uint64_t>(std::uint64_t(std::numeric_limits<T>::max()), 1ull << 53)
                            : std::int64_t{1} << std::numeric_limits<T>::digits;
  static constexpr int exponents = std::is_integral_v<T> ? 0 : std::numeric_limits<T>::max_exponent - 2;
};
template <>
struct limits<float16> {
  static constexpr std::int64_t exact_integer = 1 << 11;
  static constexpr int exponents = 14;
};
template <>
struct limits<bfloat16> {
  static constexpr std::int64_t exact_integer = 1 << 8;
  static constexpr int exponents = 126;
};
template <>
struct limits<float8_e4m3> {
  static constexpr std::int64_t exact_integer = 1 << 4;
  static constexpr int exponents = 6;
};
template <>
struct limits<float8_e5m2> {
  static constexpr std::int64_t exact_integer = 1 << 3;
  static constexpr int exponents = 14;
};

std::uint64_t hash(const data_key& key, std::uint64_t rank, std::uint64_t index) {
  return mix64(mix64(key.salt * 0x9e3779b97f4a7c15ull + index + 1) + (rank + 1) * 0xd1342543de82ef95ull);
}

// Whether this is one of the `some` ranks that contribute to the element; another choice for each element.
bool is_chosen(const data_key& key, int rank, std::uint64_t index, std::int64_t some) {
  if (some >= key.ranks) return true;
  const std::uint64_t start = mix64(key.salt + index) % static_cast<std::uint64_t>(key.ranks);
  return static_cast<std::int64_t>((start + static_cast<std::uint64_t>(rank)) %
                                   static_cast<std::uint64_t>(key.ranks)) < some;
}

// One of +-1 ... +-most.
std::int64_t whole_number(std::uint64_t bits, std::int64_t most, bool is_signed) {
  const std::int64_t magnitude = static_cast<std::int64_t>((bits >> 1) % static_cast<std::uint64_t>(most)) + 1;
  return is_signed && (bits & 1) ? -magnitude : magnitude;
}

// Bits of which each is set with a chance of about one in `ranks`, so that neither "or" nor "and" (of the
// complement) over the ranks is a constant. Never none or all: such ranks agree on one bit.
template <class T>
T sparse_bits(const data_key& key, int rank, std::uint64_t index) {
  std::uint64_t bits = ~0ull;
  for (int i = 1; i < key.ranks || i == 1; i *= 2) {
    data_key other = key;
    other.salt += static_cast<std::uint64_t>(i) << 32;
    bits &= hash(other, static_cast<std::uint64_t>(rank), index);
  }
  const T value = static_cast<T>(bits);
  const T one_bit = static_cast<T>(1u << (mix64(key.salt + index) % 8));
  return value == 0 || static_cast<T>(~value) == 0 ? static_cast<T>(value ^ one_bit) : value;
}

// For a maximum: one rank, in turn, has a number of 2 ... most, the others smaller ones. For a minimum the mirror
// image (unsigned types: most + 1 - x), so that each rank alone decides some elements however narrow the type.
std::int64_t contender(const data_key& key, int rank, std::uint64_t index, std::int64_t most, bool is_signed) {
  const std::uint64_t bits = hash(key, static_cast<std::uint64_t>(rank), index);
  const std::int64_t peak =
      2 + static_cast<std::int64_t>(mix64(key.salt + index) % static_cast<std::uint64_t>(most - 1));
  const std::uint64_t winner = (key.salt + index) % static_cast<std::uint64_t>(key.ranks);
  const bool wins = winner == static_cast<std::uint64_t>(rank);
  const std::int64_t x = wins ? peak : whole_number(bits, peak - 1, is_signed);
  if (key.operation == xylMax) return x;
  return is_signed ? -x : most + 1 - x;
}

template <class T>
T value_of(const data_key& key, int rank, std::uint64_t index) {
  const std::uint64_t bits = hash(key, static_cast<std::uint64_t>(rank), index);
  const bool bounded = key.operation == xylSum || key.operation == xylAvg;
  // The narrowest integer types average up to 127 ranks; a longer sum would wrap, which every rank order does
  // alike.
  const std::int64_t room =
      bounded ? std::max<std::int64_t>(limits<T>::exact_integer / key.ranks, 1) : limits<T>::exact_integer;
  const std::int64_t most = std::min<std::int64_t>(room, 1 << 30);
  if constexpr (std::is_integral_v<T>) {
    // One sign for all ranks, or the average would be zero for most elements.
    if (key.operation == xylAvg) {
      const bool is_negative = std::is_signed_v<T> && (mix64(key.salt + index) & 1);
      return static_cast<T>(whole_number(bits & ~1ull, most, false) * (is_negative ? -1 : 1));
    }
    if (key.operation == xylMax || key.operation == xylMin)
      return static_cast<T>(contender(key, rank, index, most, std::is_signed_v<T>));
    if (key.operation == xylBitOr) return sparse_bits<T>(key, rank, index);
    if (key.operation == xylBitAnd) return static_cast<T>(~sparse_bits<T>(key, rank, index));
    // Odd numbers for a product, or it would soon be zero.
    const T value = static_cast<T>(key.operation == xylProd ? bits | 1 : bits);
    return value == 0 ? T{1} : value;
  } else {
    double value;
    if (key.operation == xylProd) {
      const int exponents = limits<T>::exponents;
      const int steepest = std::clamp(exponents / key.ranks, 1, 3);
      const bool has_exponent = is_chosen(key, rank, index, exponents);
      const double power =
          static_cast<double>(1 << (has_exponent ? (bits >> 8) % static_cast<unsigned>(steepest) + 1 : 0));
      value = bits & 2 ? power : 1 / power;
      if (bits & 1) value = -value;
    } else if (!bounded) {
      value = static_cast<double>(contender(key, rank, index, most, true));
    } else if (!is_chosen(key, rank, index, limits<T>::exact_integer)) {
      value = 0;
    } else {
      value = static_cast<double>(whole_number(bits, most, true));
    }
    using accumulator = typename element_traits<T>::accumulator;
    return element_traits<T>::encode(static_cast<accumulator>(value));
  }
}

// Calls f with a value of the element type.
template <class F>
auto with_type(xylDataType_t type, F&& f) {
  switch (type) {
    case xylInt8:
      return f(std::int8_t{});
    case xylUint8:
      return f(std::uint8_t{});
    case xylInt16:
      return f(std::int16_t{});
    case xylUint16:
      return f(std::uint16_t{});
    case xylInt32:
      return f(std::int32_t{});
    case xylUint32:
      return f(std::uint32_t{});
    case xylInt64:
      return f(std::int64_t{});
    case xylUint64:
      return f(std::uint64_t{});
    case xylFloat16:
      return f(float16{});
    case xylBfloat16:
      return f(bfloat16{});
    case xylFloat64:
      return f(double{});
    case xylFloat8e4m3:
      return f(float8_e4m3{});
    case xylFloat8e5m2:
      return f(float8_e5m2{});
    case xylFloat32:
      break;
  }
  return f(float{});
}

template <class Operation, class T>
void reduce_with(const data_key& key, std::size_t count, T* out) {
  reduction<portable_codec<T>, Operation> how;
  if (key.operation == xylAvg) how.divisor = static_cast<std::uint32_t>(key.ranks);
  for (std::size_t i = 0; i < count; ++i) {
    auto total = element_traits<T>::decode(value_of<T>(key, 0, i));
    for (int rank = 1; rank < key.ranks; ++rank)
      total = how.combine(total, element_traits<T>::decode(value_of<T>(key, rank, i)));
    out[i] = element_traits<T>::encode(how.finish(total));
  }
}

template <class T>
void reduce(const data_key& key, std::size_t count, T* out) {
  if constexpr (std::is_integral_v<T>) {
    if (key.operation == xylBitAnd) return reduce_with<operation::bit_and>(key, count, out);
    if (key.operation == xylBitOr) return reduce_with<operation::bit_or>(key, count, out);
    if (key.operation == xylBitXor) return reduce_with<operation::bit_xor>(key, count, out);
  }
  if (key.operation == xylProd) return reduce_with<operation::prod>(key, count, out);
  if (key.operation == xylMax) return reduce_with<operation::max>(key, count, out);
  if (key.operation == xylMin) return reduce_with<operation::min>(key, count, out);
  reduce_with<operation::sum>(key, count, out);
}

// Room for count elements of T, which need not start the lifetime of anything but bytes.
template <class T, class Fill>
std::vector<std::byte> filled(std::size_t count, Fill&& fill) {
  std::vector<T> values(count);
  fill(values.data());
  std::vector<std::byte> bytes(count * sizeof(T));
  if (count > 0) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

std::vector<std::byte> make_input(const data_key& key, int rank, std::size_t count) {
  return with_type(key.type, [&](auto zero) {
    using T = decltype(zero);
    return filled<T>(count, [&](T* out) {
      for (std::size_t i = 0; i < count; ++i) out[i] = value_of<T>(key, rank, i);
    });
  });
}

std::vector<std::byte> make_reduced(const data_key& key, std::size_t count) {
  return with_type(key.type, [&](auto zero) {
    using T = decltype(zero);
    return filled<T>(count, [&](T* out) { reduce<T>(key, count, out); });
  });
}

std::string element_text(xylDataType_t type, const std::byte* element) {
  return with_type(type, [&](auto value) {
    using T = decltype(value);
    std::memcpy(&value, element, sizeof value);
    if constexpr (std::is_integral_v<T>)
      return std::to_string(value);
    else
      return format_text("%.17g", static_cast<double>(element_traits<T>::decode(value)));
  });
}

}  // namespace xyl
