// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels of xylem-probe, and what they are given. They are not in the library. None waits for anything without
// a deadline; an access that never ends cannot be helped by a kernel, so each says in pinned host memory what it
// has done.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "probe/region.hpp"

namespace xyl::probe {

inline constexpr unsigned stream_blocks = 64, stream_lanes = 512, proof_lanes = 256;

// Of one peer; in pinned host memory.
struct proof_outcome {
  std::uint64_t ended;
  std::uint64_t missing;
  std::uint64_t wrong;
};

// One block for each peer.
struct proof_arguments {
  region* memory[topo::probe_most_ranks];  // of the peers, as this device reaches it
  std::uint32_t peer[topo::probe_most_ranks];
  region* own;
  proof_outcome* outcome;
  std::uint64_t seed;
  std::uint32_t rank;
  std::uint32_t peers;
};
cudaError_t launch_fill(region* own, std::uint64_t seed, std::uint32_t rank, cudaStream_t stream);
cudaError_t launch_write(const proof_arguments& a, cudaStream_t stream);
cudaError_t launch_verify(const proof_arguments& a, cudaStream_t stream);
cudaError_t launch_read(const proof_arguments& a, cudaStream_t stream);

struct stream_outcome {
  std::uint64_t bytes;
  std::uint64_t began_ns;
  std::uint64_t ended_ns;
  std::uint64_t mixed;  // of what one lane has read
};
struct stream_arguments {
  std::byte* memory;
  std::uint64_t bytes;      // of memory
  stream_outcome* outcome;  // by block
  std::uint64_t duration_ns;
  bool pull;
};
cudaError_t launch_stream(const stream_arguments& a, cudaStream_t stream);

struct flags_outcome {
  std::uint64_t trips;  // that were timed
  std::uint64_t ns;
};
struct flags_arguments {
  std::uint64_t* mine;
  std::uint64_t* theirs;
  flags_outcome* outcome;
  std::uint64_t deadline_ns;
  std::uint32_t step;
  std::uint32_t trips;
  bool is_first;
};
cudaError_t launch_flags(const flags_arguments& a, cudaStream_t stream);

}  // namespace xyl::probe
