// SPDX-License-Identifier: BSD-3-Clause
//
// Reductions over ranges of host memory: for each type and operation a function, in a table per instruction set.
// The table is chosen once by what the processor has. All tables give the same bits: the same operations in the
// same order, without contraction.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/parameters.hpp"
#include "exec/dispatch.hpp"
#include "proto/bulk.hpp"

namespace xyl {

// destination[i] = sources[0][i] op sources[1][i] op ... in this order, divided by `divisor`. destination may be
// one of the sources. What is not null in `also` gets the same, in the same pass: 256 KB between 2 ranks took 30 us
// with a copy of each result instead, 27 with this. No alignment is needed beyond the element's.
using reduce_function = void (*)(void* destination, void* also, const void* const* sources, int count_of_sources,
                                 std::size_t elements, std::uint32_t divisor);

struct host_reductions {
  instruction_set isa;
  reduce_function function[element_types::size][reduction_operations::size];
};

// The table for a wish; a processor that lacks what was wished for gets the best it has.
const host_reductions& choose_host_reductions(instruction_set wish);

// The most ranks that host memory serves.
inline constexpr int host_capacity = 256;

// A reduction for proto/bulk.hpp that works on whole ranges.
struct host_reduction {
  static constexpr int ranks = 0;
  unsigned element_bytes;
  reduce_function reduce_range;
  std::uint32_t divisor;

  // Results are shared out to further ranks while they are in the first-level cache.
  static constexpr std::uint64_t piece = 16 * 1024, passed_bytes = 4 * 1024;

  template <class S, class Call, class From>
  void reduce_all(S& s, const Call& c, range units, From from, bool share, std::uint64_t to) const {
    const std::byte* staged[host_capacity];
    for (int p = 0; p < c.ranks; ++p)
      staged[p] = p == c.rank ? c.input + units.begin * 16 : c.workspace[c.rank] + from(p);
    std::byte* const output = c.output + units.begin * 16;
    std::byte* const next = share && c.ranks > 1 ? c.workspace[(c.rank + 1) % c.ranks] + to : nullptr;
    in_pieces(bytes_in(*this, units, c.count), [&](std::uint64_t at, std::uint64_t bytes) {
      const void* sources[host_capacity];
      for (int p = 0; p < c.ranks; ++p) sources[p] = staged[p] + at;
      const bool is_apart = next == nullptr || stages_apart(s);
      reduce_range(output + at, is_apart ? nullptr : next + at, sources, c.ranks, bytes / element_bytes, divisor);
      if (share)
        for (int k = is_apart ? 1 : 2; k < c.ranks; ++k)
          stage(s, c.workspace[(c.rank + k) % c.ranks] + to + at, output + at, bytes);
    });
  }

  // The result goes to offset `to` of one peer's workspace alone.
  template <class S, class Call, class From>
  void reduce_for(S& s, const Call& c, range units, From from, int peer, std::uint64_t to) const {
    alignas(64) std::byte passed[passed_bytes];
    const std::byte* staged[host_capacity];
    for (int p = 0; p < c.ranks; ++p)
      staged[p] = p == c.rank ? c.input + units.begin * 16 : c.workspace[c.rank] + from(p);
    const std::uint64_t bytes = bytes_in(*this, units, c.count);
    for (std::uint64_t at = 0; at < bytes; at += passed_bytes) {
      const std::uint64_t size = std::min(passed_bytes, bytes - at);
      const void* sources[host_capacity];
      for (int p = 0; p < c.ranks; ++p) sources[p] = staged[p] + at;
      const bool is_apart = stages_apart(s);
      std::byte* const there = c.workspace[peer] + to + at;
      reduce_range(is_apart ? passed : there, nullptr, sources, c.ranks, size / element_bytes, divisor);
      if (is_apart) stage(s, there, passed, size);
    }
  }

  // See proto/pull.hpp. Calls bring all ranks' buffers.
  template <class S, class Call, class Input>
  void reduce_inputs(S& s, const Call& c, range units, Input input, int outputs, std::byte* kept) const {
    const std::uint64_t first = units.begin * 16;
    const auto output_of = [&](int k) { return c.output_of[(c.rank + k) % c.ranks] + first; };
    const bool also_kept = kept != nullptr && outputs != 0;
    in_pieces(bytes_in(*this, units, c.count), [&](std::uint64_t at, std::uint64_t bytes) {
      const void* sources[host_capacity];
      for (int p = 0; p < c.ranks; ++p) sources[p] = input(p) + first + at;
      std::byte* const output = (outputs == 0 ? kept : output_of(0)) + at;
      const bool is_apart = also_kept && stages_apart(s);
      std::byte* const also = is_apart      ? nullptr
                              : also_kept   ? kept + at
                              : outputs > 1 ? output_of(1) + at
                                            : nullptr;
      reduce_range(output, also, sources, c.ranks, bytes / element_bytes, divisor);
      if (is_apart) stage(s, kept + at, output, bytes);
      for (int k = also_kept ? 1 : 2; k < outputs; ++k) s.copy(output_of(k) + at, output, bytes);
    });
  }

  template <class S, class Call>
  void reduce_pair(S& s, const Call& c, range units, std::uint64_t from, int next, std::uint64_t to,
                   bool finished) const {
    const std::byte* const arrived = c.workspace[c.rank] + from;
    const std::byte* const input = c.input + units.begin * 16;
    std::byte* const sent = c.workspace[next] + to;
    in_pieces(bytes_in(*this, units, c.count), [&](std::uint64_t at, std::uint64_t bytes) {
      const void* const sources[2] = {arrived + at, input + at};
      if (finished) {
        std::byte* const output = c.output + units.begin * 16 + at;
        const bool is_apart = stages_apart(s);
        reduce_range(output, is_apart ? nullptr : sent + at, sources, 2, bytes / element_bytes, divisor);
        if (is_apart) stage(s, sent + at, output, bytes);
      } else {
        reduce_range(sent + at, nullptr, sources, 2, bytes / element_bytes, 1);
      }
    });
  }

 private:
  // Whether results go to the peers' memory in a pass of their own.
  template <class S>
  static bool stages_apart(S& s) {
    if constexpr (requires { s.wants_stage(); })
      return s.wants_stage();
    else
      return false;
  }
  template <class F>
  static void in_pieces(std::uint64_t bytes, F f) {
    for (std::uint64_t at = 0; at < bytes; at += piece) f(at, std::min(piece, bytes - at));
  }
};

}  // namespace xyl
