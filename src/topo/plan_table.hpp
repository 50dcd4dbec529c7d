// SPDX-License-Identifier: BSD-3-Clause
// What all ranks of a communicator must have alike of a plan, as one value of fixed size: it goes through an
// allgather or broadcast as bytes, and its hash into the fingerprint of every call. Everything is by rank. No
// padding, no pointers; bytes that mean nothing are zero.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/result.hpp"
#include "topo/plan.hpp"

namespace xyl::topo {

struct plan_table {
  static constexpr std::uint32_t most_ranks = 64;
  static constexpr std::uint32_t most_rings = 8;
  static constexpr std::uint32_t most_trees = 2;
  static constexpr std::uint32_t levels = 7;  // island_kind
  static constexpr std::uint32_t most_ranges = 16;
  static constexpr std::uint16_t none = 0xffff;

  struct range {
    std::uint64_t up_to_bytes;  // inclusive
    std::uint8_t how;           // method
    std::uint8_t inside;        // direction within islands; of flat algorithms both are the same
    std::uint8_t across;
    std::uint8_t staged;   // one root complex at a time
    std::uint8_t by_ring;  // hierarchical: islands exchange around a ring
    std::uint8_t level;    // hierarchical: island_kind
    std::uint8_t reserved[2];
  };
  struct thresholds {
    std::uint64_t count;
    range ranges[most_ranges];
  };

  std::uint32_t ranks;
  std::uint32_t rings;
  std::uint32_t trees;
  std::uint8_t host_staged;
  std::uint8_t collapse_flagged;
  std::uint8_t reserved[2];
  std::uint16_t ring[most_rings][most_ranks];    // ranks in order
  std::uint16_t parent[most_trees][most_ranks];  // by rank; none at the root
  std::uint16_t island[levels][most_ranks];      // by island_kind and rank; none where the level says nothing
  thresholds of[patterns];                       // by pattern; count 0 where nothing was planned

  // The range that a message of this size falls into; nullptr where nothing was planned.
  [[nodiscard]] const range* choose(pattern what, std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t hash() const;
  // Whether this can be what a rank of so many filled in: it may come from another process. All indices are then
  // within bounds.
  [[nodiscard]] bool plausible(std::uint32_t of_ranks) const;
};
static_assert(std::is_trivially_copyable_v<plan_table>);
static_assert(std::has_unique_object_representations_v<plan_table>);

// Errors (xylInvalidArgument): more ranks than the table has room for.
result make_table(const plan& p, plan_table& out);

}  // namespace xyl::topo
