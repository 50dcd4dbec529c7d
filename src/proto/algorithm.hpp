// SPDX-License-Identifier: BSD-3-Clause
//
// The algorithms of an allreduce, by name. The numbers go over the wire in the selection table.
#pragma once

#include <cstdint>

namespace xyl {

enum class algorithm : std::uint8_t { packet, one_shot, two_shot, ring, two_shot_packet, wide_packet, line_packet };
inline constexpr int algorithms = 7;

// Whether messages travel as packets, in units of 8 bytes.
constexpr bool uses_packets(algorithm a) { return a == algorithm::packet || a == algorithm::two_shot_packet; }
// Whether they travel in lines of 128 bytes, see wide_packet.hpp.
constexpr bool uses_wide_packets(algorithm a) { return a == algorithm::wide_packet; }
// Whether they travel in lines of 16 bytes, see line_packet.hpp.
constexpr bool uses_line_packets(algorithm a) { return a == algorithm::line_packet; }
// Whether data and epoch travel together, so that nothing is posted.
constexpr bool needs_no_flag(algorithm a) {
  return uses_packets(a) || uses_wide_packets(a) || uses_line_packets(a);
}
// Whether a message is cut into a share for each rank.
constexpr bool has_shares(algorithm a) {
  return a == algorithm::two_shot || a == algorithm::ring || a == algorithm::two_shot_packet;
}

constexpr const char* name_of(algorithm a) {
  switch (a) {
    case algorithm::packet:
      return "packet";
    case algorithm::one_shot:
      return "oneshot";
    case algorithm::two_shot:
      return "twoshot";
    case algorithm::ring:
      return "ring";
    case algorithm::two_shot_packet:
      return "twoshotpacket";
    case algorithm::wide_packet:
      return "ll128";
    case algorithm::line_packet:
      return "ll16";
  }
  return "?";
}

}  // namespace xyl
