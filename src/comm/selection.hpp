// SPDX-License-Identifier: BSD-3-Clause
//
// Which algorithm, in chunks of what size, on how many blocks. Rank 0 fills the table from its environment, from
// measured defaults and from the plan of the machine; everyone uses rank 0's copy, and its hash, in which that of
// the plan is, is in every call's fingerprint. The choice depends on the memory kind and the size of the message
// alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/parameters.hpp"
#include "proto/algorithm.hpp"
#include "proto/forms.hpp"
#include "proto/fused_work.hpp"
#include "proto/layout.hpp"

namespace xyl {

struct selection {
  static constexpr std::uint32_t automatic = 255;
  static constexpr std::uint32_t most_ranges = 16;
  static constexpr std::uint64_t most_one_way_bytes = 4096;

  // Who says where the algorithms change. defaults: measured where the library is made; cache: measured on this
  // machine; model: the plan's predicted times; staged: estimated for GPUs that meet in host memory.
  enum class origin : std::uint32_t { defaults, variable, plan_file, cache, model, staged };
  struct range {
    std::uint64_t up_to_bytes;  // inclusive
    std::uint64_t how;          // algorithm
    bool operator==(const range&) const = default;
  };

  // For one kind of memory. Sizes in bytes of the whole message; larger ones use two-shot.
  struct limits {
    std::uint64_t packet_bytes;
    std::uint64_t two_shot_packet_bytes;
    std::uint64_t one_shot_bytes;
    // Allreduces of more bytes and up to so many go in lines of 128 bytes, or of 16 (see `lines`), whatever the
    // other thresholds and the ranges say. Device only, and only where those are a way to synchronise; 0: none.
    std::uint64_t wide_from_bytes;
    std::uint64_t wide_bytes;
    std::uint64_t chunk_bytes;  // a longer message is cut into chunks of this size, but for two-shots in steps
    // Device only: the bytes of a message that make one more block worth while.
    std::uint64_t packet_bytes_per_block;
    std::uint64_t two_shot_packet_bytes_per_block;
    std::uint64_t one_shot_bytes_per_block;
    std::uint64_t wide_bytes_per_block;
    std::uint64_t other_bytes_per_block;
    // Registered buffers are used in place by messages of at least so many bytes, one-shot up to so many: where
    // only inputs are registered, and where outputs are too.
    std::uint64_t pull_bytes;
    std::uint64_t one_shot_pull_bytes[2];
    // Of other messages of at least so many bytes in two shots, ranks fetch their shares. Device only.
    std::uint64_t fetched_bytes;
    // If there are ranges, they count instead of the three thresholds; sizes rise, and the last has the largest.
    std::uint32_t ranges;
    origin from;
    range by_size[most_ranges];
  };
  limits host;
  limits device;
  // Host: pieces of at least so many bytes are taken from the sender's buffer, see proto/single_copy.hpp.
  std::uint64_t single_copy_bytes;
  // Host: of broadcast, gather, scatter and reduce, pieces of at most so many bytes are as in proto/one_way.hpp.
  std::uint64_t one_way_bytes;
  // Device: allreduces of at least so many bytes are moved by copy engines, and other collectives in which a rank
  // sends or gets as many.
  std::uint64_t copy_engine_bytes;
  std::uint32_t ranks;
  std::uint32_t forced;           // an algorithm, or `automatic`
  std::uint32_t max_blocks;       // device: co-resident on every rank
  std::uint32_t max_pull_blocks;  // the same of kernels on registered buffers
  std::uint32_t sync;             // device: how ranks synchronise, see sync_choice; 0: without devices
  std::uint32_t lines;            // device: wide_packet or line_packet, what may be used; `automatic`: neither
  std::uint64_t plan;             // hash of the plan table; 0: none
  // Device: fused calls up to so many bytes are one-shot packets; of at least so many bytes they make the norms in a
  // launch of their own; those that cannot, and those between, are two-shot packets below so many bytes.
  std::uint64_t fused_packet_bytes;
  std::uint64_t two_step_bytes;
  std::uint64_t fused_two_shot_packet_bytes;
  // Those of so many bytes, up to so many, are in slices of rows where they can be.
  std::uint64_t fused_slices_bytes;
  std::uint64_t most_fused_slices_bytes;
  // Devices of two ranks: with registered inputs fused calls of so many bytes, up to so many, are pulled in one
  // shot where they can be.
  std::uint64_t fused_pull_bytes;
  std::uint64_t most_fused_pull_bytes;

  // blocks: the most that are co-resident on every rank (device), 0 without devices.
  // can_read: whether all ranks can read each other's memory. pull_blocks: of kernels on registered buffers.
  // staged: whether devices meet in host memory.
  static selection defaults(int ranks, const parameters& p, unsigned blocks, bool can_read = false,
                            bool staged = false, unsigned pull_blocks = 1);

  // Makes everything flagged that would be packets on devices.
  void avoid_packets();

  // Lets allreduces on devices use lines of that kind, where measurements or (always) somebody's wish says so, and
  // sees to it that nothing uses others; or any.
  void use_lines(algorithm kind, bool always, bool on_one_gpu);
  void avoid_lines() { use_lines_alone(std::nullopt); }

  // in_lines: whether the choice may be lines: has_lines_for() of an allreduce, but not of the fused one.
  algorithm choose(const limits& of, std::uint64_t bytes, bool in_lines) const;
  // Whether there are lines for an allreduce of that type and operation.
  bool has_lines_for(int type, int operation) const;
  // For registered inputs; in_place: they are the outputs. Nothing: in no registered way.
  std::optional<pull_form> choose_pull(const limits& of, std::uint64_t bytes, bool has_outputs,
                                       bool in_place) const;
  // The same of fused calls; needs_owners: each row must have one reader.
  std::optional<fused_form> choose_fused_pull(bool device, std::uint64_t bytes, bool needs_owners) const;
  // For what a ring does not do: a ring that was chosen as such is made two-shot.
  static algorithm without_ring(algorithm how) { return how == algorithm::ring ? algorithm::two_shot : how; }
  // What choose() amounts to for allreduces.
  std::vector<range> ranges_of(const limits& of) const;
  // False, and nothing changes: the ranges do not rise to the largest size, or are too many.
  [[nodiscard]] static bool set_ranges(limits& of, std::span<const range> wanted, origin from);
  // The blocks that `bytes` of a chunk are spread over.
  unsigned blocks_for(algorithm how, std::uint64_t bytes) const;
  unsigned pull_blocks_for(pull_form how, std::uint64_t bytes) const;
  std::uint64_t hash() const;
  // Whether this can be what a rank of `of_ranks` filled in: it came through the caller's allgather.
  bool plausible(std::uint32_t of_ranks) const;

 private:
  void use_lines_alone(std::optional<algorithm> kind);
};

const char* name_of(selection::origin from);

// The most elements of one chunk: what the workspace holds and what the table says. A multiple of whole units.
// all_reduces: only an allreduce in one shot has the whole slot where it has one writer.
std::uint64_t chunk_elements(algorithm how, const layout& map, std::uint64_t wanted_bytes, unsigned element_bytes,
                             bool all_reduces);
// The most bytes of one chunk of pull_form::gathered.
std::uint64_t gathered_pull_bytes(const layout& map);

}  // namespace xyl
