// SPDX-License-Identifier: BSD-3-Clause
//
// A protocol by name, for any execution space.
#pragma once

#include "proto/flagged.hpp"
#include "proto/grouped_packet.hpp"
#include "proto/kinds.hpp"
#include "proto/two_shot_packet.hpp"
#include "proto/wide_packet.hpp"

namespace xyl::test {

// Ranks: their number as a constant, or 0.
template <class Kind, int Ranks, class Space, class Call>
bool run_protocol(Space& s, const Call& c, protocol how) {
  reduction<portable_codec<typename Kind::element>, typename Kind::combining, Ranks> red;
  if (Kind::average) red.divisor = static_cast<unsigned>(c.ranks);
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

}  // namespace xyl::test
