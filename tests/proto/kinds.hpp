// SPDX-License-Identifier: BSD-3-Clause
//
// The element types and operations that the protocol tests use, with inputs in which a lost, doubled or reordered
// contribution shows, and a sequential reference for each algorithm's order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "proto/call.hpp"
#include "proto/partition.hpp"
#include "proto/reduction.hpp"

namespace xyl::test {

enum class protocol {
  packet,
  one_shot,
  two_shot,
  ring,
  two_shot_packet,
  grouped_two_shot,
  wide_packet,
  line_packet,
  barrier
};
inline constexpr protocol all_reduces[] = {
    protocol::packet,          protocol::one_shot,         protocol::two_shot,    protocol::ring,
    protocol::two_shot_packet, protocol::grouped_two_shot, protocol::wide_packet, protocol::line_packet};

inline const char* name_of(protocol p) {
  switch (p) {
    case protocol::packet:
      return "packet";
    case protocol::one_shot:
      return "one_shot";
    case protocol::two_shot:
      return "two_shot";
    case protocol::ring:
      return "ring";
    case protocol::two_shot_packet:
      return "two_shot_packet";
    case protocol::grouped_two_shot:
      return "grouped_two_shot";
    case protocol::wide_packet:
      return "wide_packet";
    case protocol::line_packet:
      return "line_packet";
    case protocol::barrier:
      return "barrier";
  }
  return "?";
}

template <class T, class Operation, bool Average = false>
struct kind {
  using element = T;
  using combining = Operation;
  static constexpr bool average = Average;
  // The widest vectors' rank-count specialisations exist for sums alone, as in the library.
  static constexpr bool has_constant_ranks = std::is_same_v<Operation, xyl::operation::sum> && !Average;
};

inline constexpr int kinds = 9;

// f(kind<...>{}) for the kind of that number.
template <class F>
void with_kind(int number, F f) {
  switch (number) {
    case 0:
      return f(kind<float, operation::sum>{});
    case 1:
      return f(kind<bfloat16, operation::sum>{});
    case 2:
      return f(kind<float8_e4m3, operation::sum>{});
    case 3:
      return f(kind<std::int8_t, operation::sum, true>{});
    case 4:
      return f(kind<std::int64_t, operation::prod>{});
    case 5:
      return f(kind<double, operation::min>{});
    case 6:
      return f(kind<float16, operation::max>{});
    case 7:
      return f(kind<std::uint16_t, operation::bit_xor>{});
    case 8:
      return f(kind<float8_e5m2, operation::sum, true>{});
  }
}

inline std::size_t element_bytes(int number) {
  std::size_t bytes = 0;
  with_kind(number, [&]<class Kind>(Kind) { bytes = sizeof(typename Kind::element); });
  return bytes;
}

// Element i of what `rank` contributes: any bits for integers, a finite number of mixed magnitude and sign
// otherwise.
template <class T>
T input_element(std::uint64_t seed, int rank, std::uint64_t i) {
  const std::uint64_t bits = mix64(mix64(seed * 1031 + static_cast<unsigned>(rank) + 1) + i);
  if constexpr (element_traits<T>::is_integer) {
    return static_cast<T>(bits);
  } else {
    const double fraction = 1 + static_cast<double>(bits >> 12) * 0x1p-52;
    const double value = std::ldexp(bits & 1 ? -fraction : fraction, static_cast<int>(bits >> 1 & 7) - 4);
    if constexpr (std::is_same_v<T, double>)
      return value;
    else
      return element_traits<T>::encode(static_cast<float>(value));
  }
}

inline ring_seat seat_in(const std::vector<int>& ring, int rank) {
  const auto ranks = static_cast<int>(ring.size());
  const auto place = static_cast<int>(std::find(ring.begin(), ring.end(), rank) - ring.begin());
  return {place, ring[static_cast<unsigned>((place + 1) % ranks)],
          ring[static_cast<unsigned>((place + ranks - 1) % ranks)]};
}

// What element i of `count` must be on every rank. order: of the ring's ranks; empty: rank order.
template <class Kind>
typename Kind::element expected_element(protocol how, std::uint64_t seed, int ranks, std::uint64_t i,
                                        std::uint64_t count, const std::vector<int>& order = {}) {
  using T = typename Kind::element;
  using traits = element_traits<T>;
  using accumulator = typename traits::accumulator;
  // The ring adds share p from place p + 1 on, through the wire type; the others add from rank 0 on.
  const std::uint64_t per_unit = 16 / sizeof(T);
  const std::uint64_t share = (((count + per_unit - 1) / per_unit) + static_cast<unsigned>(ranks) - 1) / ranks;
  const bool ring = how == protocol::ring;
  const int first = ring ? static_cast<int>(i / per_unit / share + 1) % ranks : 0;
  const auto at = [&](int place) { return ring && !order.empty() ? order[static_cast<unsigned>(place)] : place; };
  accumulator sum = traits::decode(input_element<T>(seed, at(first), i));
  for (int k = 1; k < ranks; ++k) {
    sum = Kind::combining::combine(sum, traits::decode(input_element<T>(seed, at((first + k) % ranks), i)));
    if (ring && k + 1 < ranks) sum = traits::decode(traits::encode(sum));
  }
  if constexpr (Kind::average) {
    if constexpr (traits::is_integer)
      sum = static_cast<accumulator>(static_cast<long long>(sum) / ranks);
    else
      sum = sum / static_cast<accumulator>(ranks);
  }
  return traits::encode(sum);
}

// The most elements that one call can carry.
inline std::uint64_t largest_count(protocol how, const layout& map, std::uint64_t bytes_of_element) {
  const std::uint64_t ranks = map.ranks;
  std::uint64_t bytes = 0;
  switch (how) {
    case protocol::packet:
      bytes = map.packet_capacity();
      break;
    case protocol::one_shot:
      bytes = map.bulk_stride;
      break;
    case protocol::two_shot:
      bytes = map.bulk_stride / 32 * 16 * ranks;
      break;
    case protocol::ring:
      bytes = ranks * map.bulk_stride / 16 / (2 * (ranks - 1)) * 16 * ranks;
      break;
    case protocol::two_shot_packet:
    case protocol::grouped_two_shot:
      bytes = map.packet_capacity() / 16 * 8 * ranks;
      break;
    case protocol::wide_packet:
      bytes = map.wide_packs() * wide_pack::units * 16;
      break;
    case protocol::line_packet:
      bytes = map.line_sheets() * line_sheet::units * 16;
      break;
    case protocol::barrier:
      break;
  }
  return bytes / bytes_of_element;
}

}  // namespace xyl::test
