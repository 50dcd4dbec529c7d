// SPDX-License-Identifier: BSD-3-Clause
//
// What an allreduce must give, to the bit, computed on the CPU with the portable codecs in the order of the
// algorithm: rank order for all but the ring, whose shares begin at the rank after their owner and are rounded at
// every step. Inputs are made from (seed, rank, index), so that every process knows all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "proto/algorithm.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"
#include "tests/support/combine.hpp"

namespace xyl::gpu_test {

inline std::uint64_t hash(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// Half of the floating-point inputs are any bits (infinities, NaN, subnormals), half are of moderate size.
template <class T>
T input_value(std::uint64_t seed, int rank, std::uint64_t index) {
  const std::uint64_t h = hash(hash(seed * 64 + static_cast<unsigned>(rank)) + index);
  T value;
  std::memcpy(&value, &h, sizeof value);
  using accumulator = typename element_traits<T>::accumulator;
  if constexpr (!element_traits<T>::is_integer)
    if (h >> 63)
      value = element_traits<T>::encode(static_cast<accumulator>(static_cast<int>(h >> 20 & 2047) - 1024) / 256);
  return value;
}

// chunk: elements of one launch; the ring's shares are those of a launch.
template <class T>
std::vector<T> expected(algorithm how, xylRedOp_t op, int ranks, std::uint64_t count, std::uint64_t seed,
                        std::uint64_t chunk) {
  using traits = element_traits<T>;
  constexpr std::uint64_t per_unit = 16 / sizeof(T);
  std::vector<T> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = i / chunk * chunk, size = std::min(chunk, count - begin);
    const std::uint64_t share = units_of(units_of(size, per_unit), static_cast<unsigned>(ranks)) * per_unit;
    const bool is_ring = how == algorithm::ring && ranks > 1;
    const int first = is_ring ? (static_cast<int>((i - begin) / share) + 1) % ranks : 0;
    auto acc = traits::decode(input_value<T>(seed, first, i));
    for (int k = 1; k < ranks; ++k) {
      acc = test::combine(op, acc, traits::decode(input_value<T>(seed, (first + k) % ranks, i)));
      if (is_ring && k < ranks - 1) acc = traits::decode(traits::encode(acc));
    }
    out[i] = traits::encode(op == xylAvg ? divide(acc, static_cast<std::uint32_t>(ranks)) : acc);
  }
  return out;
}

// Equal bits, or both NaN.
template <class T>
bool is_same(T a, T b) {
  if (std::memcmp(&a, &b, sizeof a) == 0) return true;
  if constexpr (element_traits<T>::is_integer)
    return false;
  else
    return std::isnan(element_traits<T>::decode(a)) && std::isnan(element_traits<T>::decode(b));
}

}  // namespace xyl::gpu_test
