// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives that xylem-perf measures: one table entry each. Everything else in the tool is the same for all.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "tools/perf_data.hpp"
#include "xylem/xylem.h"

namespace xyl {

struct collective_call {
  const void* send;
  void* recv;
  std::size_t count;
  xylDataType_t type;
  xylRedOp_t operation;
};

struct perf_collective {
  const char* name;
  const char* help;
  int root;  // -1: has none
  // What the slowest link carries, per byte of the message: bus bandwidth = algorithm bandwidth times this.
  double (*bus_factor)(int ranks);
  xylResult_t (*call)(const collective_call& what, xylComm_t comm, xylStream_t stream);
  const char* function;  // for messages
  std::vector<std::byte> (*expected)(const data_key& key, std::size_t count);
  // The same on host memory by MPI; MPI_ERR_TYPE or MPI_ERR_OP where MPI has no such type or operation. In place if
  // send == recv.
  int (*mpi_call)(const collective_call& what, MPI_Comm comm);
};

std::span<const perf_collective> perf_collectives();

// Whether MPI has the type and the operation.
bool mpi_can(xylDataType_t type, xylRedOp_t operation);

}  // namespace xyl
