// SPDX-License-Identifier: BSD-3-Clause
// The words of a plan: which collective is planned, by which algorithm, in which direction data moves. The numbers
// of both enumerations go over the wire: add at the end only. Methods that proto/algorithm.hpp has too, which
// XYLEM_ALGO names, have the same names here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/algorithm.hpp"

namespace xyl::topo {

// Message sizes are those of nccl-tests: the larger of the two buffers of one rank.
enum class pattern : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all };
inline constexpr int patterns = 5;

enum class method : std::uint8_t {
  packet,    // data and epoch in one word, to every peer, in one round
  one_shot,  // data, then one flag, to every peer
  two_shot,  // a share to its owner, the result from its owner
  ring,
  two_shot_packet,   // two-shot whose data are packets
  tree,              // reduce up, broadcast down, pipelined
  hierarchical,      // inside islands, across them by rail, inside again
  copy_engine_ring,  // a ring whose copies leave the multiprocessors free
  wide_packet,       // data and epoch in lines of 128 bytes; not planned with, since links have to prove it
  single_copy,       // hosts: from the sender's buffer, through the kernel
  line_packet,       // data and epoch in lines of 16 bytes; not planned with
};
inline constexpr int methods = 11;

// push: the owner of the data writes it; pull: who needs it reads.
enum class direction : std::uint8_t { push, pull };

constexpr const char* name_of(method m) {
  constexpr std::array<const char*, methods> names = {
      "packet",       "oneshot",        "twoshot", "ring",       "twoshotpacket", "tree",
      "hierarchical", "copyenginering", "ll128",   "singlecopy", "ll16"};
  return static_cast<std::size_t>(m) < names.size() ? names[static_cast<std::size_t>(m)] : "?";
}

constexpr const char* name_of(pattern p) {
  constexpr std::array<const char*, patterns> names = {"allreduce", "allgather", "reducescatter", "broadcast",
                                                       "alltoall"};
  return static_cast<std::size_t>(p) < names.size() ? names[static_cast<std::size_t>(p)] : "?";
}

constexpr const char* name_of(direction d) { return d == direction::push ? "push" : "pull"; }

constexpr std::optional<method> method_named(std::string_view name) {
  for (int i = 0; i < methods; ++i)
    if (name == name_of(static_cast<method>(i))) return static_cast<method>(i);
  return std::nullopt;
}

// Nothing for an algorithm that is not planned with.
constexpr std::optional<method> method_of(algorithm a) { return method_named(name_of(a)); }
static_assert([] {
  for (int a = 0; a < algorithms; ++a)
    if (!method_of(static_cast<algorithm>(a))) return false;
  return true;
}());

constexpr std::optional<pattern> pattern_named(std::string_view name) {
  for (int i = 0; i < patterns; ++i)
    if (name == name_of(static_cast<pattern>(i))) return static_cast<pattern>(i);
  return std::nullopt;
}

// Only these add in rank order, whatever the size of the message.
constexpr bool in_rank_order(method m) {
  return m == method::packet || m == method::one_shot || m == method::two_shot || m == method::two_shot_packet ||
         m == method::wide_packet || m == method::line_packet;
}

// What nccl-tests multiply bytes / time with to get the bandwidth that a link sees.
constexpr double bus_factor(pattern p, unsigned ranks) {
  const double n = ranks;
  if (p == pattern::all_reduce) return 2 * (n - 1) / n;
  return p == pattern::broadcast ? 1.0 : (n - 1) / n;
}

}  // namespace xyl::topo
