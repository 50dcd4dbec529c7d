// SPDX-License-Identifier: BSD-3-Clause
//
// The collectives of MPI that a comparison measures, on host memory, with the arguments of Xylem's. Each returns
// MPI's code. Where MPI's in-place form has another layout (reduce-scatter), the same amount of data is moved and
// reduced within the same buffer. A broadcast is always MPI's, in place: the root sends from its send buffer, the
// others receive into recv.
#pragma once

#include <mpi.h>

#include "tools/perf_collective.hpp"

namespace xyl {

int mpi_all_reduce(const collective_call& call, MPI_Comm comm);
int mpi_reduce(const collective_call& call, MPI_Comm comm);
int mpi_broadcast(const collective_call& call, MPI_Comm comm);
int mpi_reduce_scatter(const collective_call& call, MPI_Comm comm);
int mpi_all_gather(const collective_call& call, MPI_Comm comm);
int mpi_all_to_all(const collective_call& call, MPI_Comm comm);
int mpi_gather(const collective_call& call, MPI_Comm comm);
int mpi_scatter(const collective_call& call, MPI_Comm comm);
int mpi_send_receive(const collective_call& call, MPI_Comm comm);
int mpi_barrier(const collective_call& call, MPI_Comm comm);

// Whether MPI has what the call needs: for reductions the type and the operation; elsewhere elements are only
// moved, and any type of the size will do. Its counts are int; an allreduce alone is cut into pieces.
bool mpi_can(const perf_collective& collective, const collective_call& call);

}  // namespace xyl
