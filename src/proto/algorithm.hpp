// SPDX-License-Identifier: BSD-3-Clause
//
// The algorithms of an allreduce, by name. The numbers go over the wire in the selection table.
#pragma once

#include <cstdint>

namespace xyl {

enum class algorithm : std::uint8_t { packet, one_shot, two_shot, ring };
inline constexpr int algorithms = 4;

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
  }
  return "?";
}

}  // namespace xyl
