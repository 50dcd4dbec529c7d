// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that xylem-perf measures: one table row each. A row says how large the buffers are, what they
// must hold afterwards, and how to call Xylem and MPI; everything else in the tool is the same for all. Sizes,
// counts and bus factors are those of nccl-tests.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "xylem/xylem.h"

namespace xyl {

// One rank's call.
struct collective_call {
  const void* send;
  void* recv;
  std::size_t count;  // as the function takes it
  xylDataType_t type;
  xylRedOp_t operation;
  int root;
  int rank;
  int ranks;
  bool in_place;
};

// Elements of a buffer: none, count, or count for each rank.
enum class extent { none, one, per_rank };

// A piece of what recv must hold, in order: `count` elements that lie at `offset` of the send buffer of `source`.
struct expected_part {
  static constexpr int reduced = -1;    // of all ranks' send buffers, reduced
  static constexpr int unwritten = -2;  // what was there before the call
  int source;
  std::size_t offset;
  std::size_t count;
};

struct perf_collective {
  const char* name;
  const char* help;
  const char* function;  // for messages
  bool reduces;
  bool has_root;
  bool has_in_place;
  extent send;
  extent recv;
  // What the slowest link carries, per byte of the message: bus bandwidth = algorithm bandwidth times this.
  double (*bus_factor)(int ranks);
  std::vector<expected_part> (*expected)(const collective_call& call);
  xylResult_t (*call)(const collective_call& call, xylComm_t comm, xylStream_t stream);
  // The same on host memory; MPI's error code, where MPI cannot express the call MPI_ERR_TYPE, MPI_ERR_OP or
  // MPI_ERR_COUNT.
  int (*mpi_call)(const collective_call& call, MPI_Comm comm);
};

std::span<const perf_collective> perf_collectives();

std::size_t elements_of(extent e, std::size_t count, int ranks);

// The count whose larger buffer has `bytes` bytes, rounded down to whole elements for every rank, at least one; 0
// for a collective without buffers.
std::size_t count_for(const perf_collective& collective, std::uint64_t bytes, std::size_t element_size, int ranks);

// The size that is reported: of the larger buffer.
std::uint64_t message_bytes(const perf_collective& collective, std::size_t count, std::size_t element_size,
                            int ranks);

// Fills in send and recv. In place both are in the memory of `recv`, the smaller buffer at this rank's place within
// the larger one.
void place_buffers(const perf_collective& collective, std::size_t element_size, std::byte* send, std::byte* recv,
                   collective_call& call);

}  // namespace xyl
