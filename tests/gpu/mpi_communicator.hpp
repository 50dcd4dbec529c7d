// SPDX-License-Identifier: BSD-3-Clause
//
// The communicator of a GPU test that goes through the ABI, of all MPI ranks.
#pragma once

#include "tests/gpu/mpi_program.hpp"
#include "xylem/xylem.h"
#include "xylem/xylem_mpi.h"

namespace xyl::gpu_test {

inline xylComm_t comm = nullptr;

inline void must(xylResult_t code, const char* what) {
  if (code == xylSuccess) return;
  const char* const text = comm != nullptr ? xylGetLastError(comm) : "";
  give_up(what, *text ? text : xylGetLastError(nullptr));
}

// Whether it has a device, as it must.
inline bool make_communicator() {
  must(xylCommInitMPI(&comm, MPI_COMM_WORLD), "xylCommInitMPI");
  int device = -1;
  must(xylCommDevice(comm, &device), "xylCommDevice");
  return expect(device >= 0, "the communicator has no device");
}
inline void destroy_communicator() {
  MPI_Barrier(MPI_COMM_WORLD);
  must(xylCommDestroy(comm), "xylCommDestroy");
  comm = nullptr;
}

}  // namespace xyl::gpu_test
