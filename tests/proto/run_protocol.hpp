// SPDX-License-Identifier: BSD-3-Clause
//
// A protocol by name, for any execution space.
#pragma once

#include "proto/chosen_reduction.hpp"
#include "proto/flagged.hpp"
#include "proto/grouped_packet.hpp"
#include "proto/kind_codes.hpp"
#include "proto/kinds.hpp"
#include "proto/line_packet.hpp"
#include "proto/stand_in.hpp"
#include "proto/two_shot.hpp"
#include "proto/two_shot_packet.hpp"
#include "proto/wide_packet.hpp"

namespace xyl::test {

template <class Space, class Call, class R>
bool run_protocol_with(Space& s, const Call& c, const R& red, protocol how) {
  switch (how) {
    case protocol::packet:
      return packet_allreduce(s, c, red);
    case protocol::one_shot:
      return one_shot_allreduce(s, c, red);
    case protocol::two_shot:
      return two_shot_allreduce(s, c, red);
    case protocol::ring:
      return ring_allreduce(s, c, red);
    case protocol::two_shot_packet:
      return two_shot_packet_allreduce(s, c, red);
    case protocol::grouped_two_shot:
      return grouped_two_shot_allreduce(s, c, red);
    case protocol::wide_packet:
      return wide_packet_allreduce(s, c, red);
    case protocol::line_packet:
      return line_packet_allreduce(s, c, red);
    case protocol::barrier:
      return barrier(s, c);
  }
  return false;
}

// f(reduction) with what kernels have for types that share one.
template <class Kind, class F>
bool with_shared_reduction(int ranks, F f) {
  constexpr auto codes = codes_of<Kind>();
  const std::uint32_t divisor = Kind::average ? static_cast<std::uint32_t>(ranks) : 1;
  if constexpr (is_packed<typename Kind::element>)
    return f(packed_reduction(codes.operation, codes.type, divisor));
  else
    return f(chosen_reduction<either_float8>(codes.operation, divisor, either_float8(codes.type == xylFloat8e5m2)));
}

// Ranks: their number as a constant, or 0.
template <class Kind, int Ranks, class Space, class Call>
bool run_protocol(Space& s, const Call& c, protocol how) {
  using T = typename Kind::element;
  if constexpr (Ranks == 0 && !std::is_same_v<stand_in_of<T>, T>) {
    Call counted = c;
    if (is_packed<T>) counted.count = c.count * sizeof(T);
    return with_shared_reduction<Kind>(c.ranks,
                                       [&](const auto& red) { return run_protocol_with(s, counted, red, how); });
  } else {
    reduction<portable_codec<T>, typename Kind::combining, Ranks> red;
    if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
    return run_protocol_with(s, c, red, how);
  }
}

}  // namespace xyl::test
