/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Xylem communicators from MPI communicators. Header only, C11 or C++: the program's own compiler sees the program's
 * own mpi.h, and libxylem never links MPI.
 */
#ifndef XYLEM_MPI_H
#define XYLEM_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "xylem/xylem.h"

/* The xylAllgatherFunc_t over an MPI communicator; context points to the MPI_Comm. */
static inline int xylAllgatherMPI(void *context, const void *send, void *recv, size_t bytes_per_rank) {
  if (bytes_per_rank > (size_t)INT_MAX) return 1;
  return MPI_Allgather(send, (int)bytes_per_rank, MPI_BYTE, recv, (int)bytes_per_rank, MPI_BYTE,
                       *(MPI_Comm *)context) == MPI_SUCCESS
             ? 0
             : 1;
}

/* Creates the communicator of this rank of `mpi`: same ranks, same order. Collective over `mpi`, which is used only
 * before this returns (through a duplicate, so its pending messages do not matter) and may be freed afterwards. The
 * Xylem communicator stays usable after MPI_Finalize. MPI must be initialised.
 *
 * Errors (*comm is then NULL): those of xylCommInitOob, whose text xylGetLastError(NULL) gives; and, with the text on
 * standard error because the library was not reached:
 *   xylInvalidArgument: comm is NULL, or mpi is MPI_COMM_NULL;
 *   xylInvalidUsage: MPI is not initialised, or Slurm started several tasks of which each is alone in its own
 *     MPI_COMM_WORLD (srun and the MPI library do not share a start-up protocol; the text says what to type);
 *   xylSystemError: MPI could not duplicate the communicator. */
static inline xylResult_t xylCommInitMPI(xylComm_t *comm, MPI_Comm mpi) {
  if (comm == NULL) {
    fprintf(stderr, "xylem: xylCommInitMPI was given NULL for the communicator to create\n");
    return xylInvalidArgument;
  }
  *comm = NULL;
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (!initialized) {
    fprintf(stderr, "xylem: xylCommInitMPI was called before MPI_Init\n");
    return xylInvalidUsage;
  }
  if (mpi == MPI_COMM_NULL) {
    fprintf(stderr, "xylem: xylCommInitMPI was given MPI_COMM_NULL\n");
    return xylInvalidArgument;
  }

  /* SLURM_STEP_NUM_TASKS is set by srun alone: a single rank inside a larger allocation (an sbatch script) is fine.
   * mpirun starts its daemons with srun, so its ranks inherit the variable; they are told apart by mpirun's own. */
  int world_ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world_ranks);
  const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
  const int under_mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("MPI_LOCALNRANKS") != NULL;
  if (world_ranks == 1 && tasks != NULL && atoi(tasks) > 1 && !under_mpirun) {
    const char *task = getenv("SLURM_PROCID");
    if (task == NULL || atoi(task) == 0)
      fprintf(stderr,
              "xylem: Slurm started %s tasks, but each of them is alone in MPI_COMM_WORLD: this srun and this MPI "
              "library do not share a start-up protocol. Type `srun --mpi=pmix ...` (`srun --mpi=list` shows what "
              "there is), or use mpirun.\n",
              tasks);
    return xylInvalidUsage;
  }

  MPI_Comm duplicate = MPI_COMM_NULL;
  if (MPI_Comm_dup(mpi, &duplicate) != MPI_SUCCESS) {
    fprintf(stderr, "xylem: MPI_Comm_dup failed\n");
    return xylSystemError;
  }
  MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
  int ranks = 0;
  int rank = 0;
  MPI_Comm_size(duplicate, &ranks);
  MPI_Comm_rank(duplicate, &rank);
  const xylResult_t result = xylCommInitOob(comm, ranks, rank, xylAllgatherMPI, &duplicate);
  MPI_Comm_free(&duplicate);
  return result;
}

#endif
