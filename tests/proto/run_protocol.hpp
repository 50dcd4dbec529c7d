// SPDX-License-Identifier: BSD-3-Clause
//
// A protocol by name, for any execution space.
#pragma once

#include "exec/dispatch.hpp"
#include "proto/flagged.hpp"
#include "proto/grouped_packet.hpp"
#include "proto/kinds.hpp"
#include "proto/packed_reduction.hpp"
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
    case protocol::barrier:
      return barrier(s, c);
  }
  return false;
}

// The types that kernels see as bytes, as they see them.
template <class Kind>
packed_reduction packed_reduction_of(int ranks) {
  int type = 0, operation = 0;
  element_types::for_each([&](auto entry, int) {
    if (std::is_same_v<typename decltype(entry)::type, typename Kind::element>) type = entry.code;
  });
  reduction_operations::for_each([&](auto entry, int) {
    if (std::is_same_v<typename decltype(entry)::type, typename Kind::combining>) operation = entry.code;
  });
  return {operation, type, Kind::average ? static_cast<std::uint32_t>(ranks) : 1};
}

// Ranks: their number as a constant, or 0.
template <class Kind, int Ranks, class Space, class Call>
bool run_protocol(Space& s, const Call& c, protocol how) {
  using T = typename Kind::element;
  if constexpr (Ranks == 0 && is_packed<T>) {
    Call bytes = c;
    bytes.count = c.count * sizeof(T);
    return run_protocol_with(s, bytes, packed_reduction_of<Kind>(c.ranks), how);
  } else {
    reduction<portable_codec<T>, typename Kind::combining, Ranks> red;
    if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
    return run_protocol_with(s, c, red, how);
  }
}

}  // namespace xyl::test
