// SPDX-License-Identifier: BSD-3-Clause
//
// The forms of collectives and transfers that are tested with ranks as threads, and one call of one.
#pragma once

#include <cstdint>

#include "proto/call.hpp"
#include "proto/layout.hpp"

namespace xyl::test {

enum class form {
  packet,
  direct,
  pull,
  spread,
  single_copy,
  one_way,
  packet_reduce,
  direct_reduce,
  two_phase,
  shift,
  long_shift,  // a shift through bulk data
  swap         // of two ranks, through bulk data
};
inline constexpr const char* form_names[] = {"packet",      "direct",  "pull",          "spread",
                                             "single_copy", "one_way", "packet_reduce", "direct_reduce",
                                             "two_phase",   "shift",   "long_shift",    "swap"};

struct collective_plan {
  form how = form::direct;
  collective what = collective::all_gather;
  int root = 0;
  int kind = 0;             // elements, see kinds.hpp
  std::uint64_t count = 0;  // of a piece
  unsigned blocks = 1;
  bool in_place = false;
  unsigned shift = 0;    // elements by which user pointers are off (output: one more)
  int odd_rank = -1;     // believes in another count
  int distance = 1;      // of a shift: rank r sends to r + distance
  bool offered = false;  // a shift: without staging
  int only = -1;         // a shift: the one rank that sends, or all
};

// Whether a form does a collective.
inline bool does(form how, collective what) {
  switch (how) {
    case form::packet:
    case form::direct:
    case form::single_copy:
      return what >= collective::broadcast && what != collective::reduce_scatter && what <= collective::scatter;
    case form::one_way:
      return what == collective::broadcast || what == collective::gather || what == collective::scatter ||
             what == collective::reduce;
    case form::pull:
      return what == collective::broadcast || what == collective::all_gather;
    case form::spread:
      return what == collective::broadcast;
    case form::packet_reduce:
    case form::direct_reduce:
      return what == collective::reduce || what == collective::reduce_scatter;
    case form::two_phase:
      return what == collective::reduce;
    case form::swap:
      return what == collective::all_gather || what == collective::all_to_all || what == collective::reduce_scatter;
    case form::shift:
    case form::long_shift:
      return what == collective::send;
  }
  return false;
}

// The most elements of a piece.
inline std::uint64_t largest_piece(form how, const layout& map, std::uint64_t element_bytes) {
  std::uint64_t bytes = map.bulk_stride;
  if (how == form::packet || how == form::packet_reduce) bytes = map.packet_capacity();
  if (how == form::single_copy) bytes = 3 * map.bulk_stride + 7;
  if (how == form::one_way) bytes = map.one_way_capacity();
  if (how == form::spread) bytes = map.bulk_stride * (map.ranks - 1);
  if (how == form::two_phase) bytes = map.bulk_stride / 32 * 16 * map.ranks;
  if (how == form::shift || how == form::long_shift || how == form::swap) bytes = 9 * map.pair_chunk + 5;
  return bytes / element_bytes;
}

}  // namespace xyl::test
