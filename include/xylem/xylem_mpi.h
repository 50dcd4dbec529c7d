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
#include <string.h>

#include "xylem/xylem.h"

/* An MPI communicator and its duplicate, over which the ranks initialise. */
struct xylOverMPI {
  MPI_Comm mpi;
  MPI_Comm duplicate; /* MPI_COMM_NULL before the second allgather */
  int ranks;
  int rank;
  int begun; /* the first allgather has */
  int left;  /* an allgather was given up: MPI may still use what it was given */
};

/* Whether the request is over; then *failed says how it went. */
static inline int xylTestMPI(MPI_Request *request, int *failed) {
  int over = 0;
  if (MPI_Test(request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS) return over;
  *failed = 1;
  return 1;
}

/* Until the request is over: 0, or 1 if it failed or the others are not worth waiting for. */
static inline int xylWaitMPI(MPI_Request *request, int missing) {
  int failed = 0;
  while (!xylTestMPI(request, &failed) && !failed) failed = xylCommInitWait(missing) != xylSuccess;
  return failed;
}

/* The allgather by messages between the ranks, so that it can be said who is missing. parts: ranks + 1 of them, of which
 * the last is sent; requests: 2 * ranks. */
static inline int xylMessagesMPI(const struct xylOverMPI *over, char *parts, int bytes, MPI_Request *requests) {
  char *const mine = parts + (size_t)over->ranks * (size_t)bytes;
  memcpy(parts + (size_t)over->rank * (size_t)bytes, mine, (size_t)bytes);
  for (int r = 0; r < over->ranks; ++r) {
    MPI_Request *const in = &requests[r], *const out = &requests[over->ranks + r];
    *in = *out = MPI_REQUEST_NULL;
    if (r == over->rank) continue;
    char *const theirs = parts + (size_t)r * (size_t)bytes;
    if (MPI_Irecv(theirs, bytes, MPI_BYTE, r, 0, over->duplicate, in) != MPI_SUCCESS) return 1;
    if (MPI_Isend(mine, bytes, MPI_BYTE, r, 0, over->duplicate, out) != MPI_SUCCESS) return 1;
  }
  /* Receives first: while one of them is open, its rank is the one that is missing. */
  for (int at = 0; at < 2 * over->ranks; ++at)
    if (requests[at] != MPI_REQUEST_NULL && xylWaitMPI(&requests[at], at % over->ranks) != 0) return 1;
  return 0;
}

/* The xylAllgatherFunc_t over a struct xylOverMPI. In the first call the ranks tell each other who they are: until that
 * is over nobody can know that one has died. Hence without the duplicate, which takes MPI longer. */
static inline int xylAllgatherMPI(void *context, const void *send, void *recv, size_t bytes_per_rank) {
  struct xylOverMPI *over = (struct xylOverMPI *)context;
  const size_t ranks = (size_t)over->ranks;
  if (bytes_per_rank > (size_t)INT_MAX) return 1;
  const int bytes = (int)bytes_per_rank, first = !over->begun;
  over->begun = 1;
  over->left = 1; /* unless this comes to its end */
  /* Memory that stays MPI's if this gives up. */
  char *const parts = (char *)malloc((ranks + 1) * bytes_per_rank + 1);
  MPI_Request *const requests = (MPI_Request *)malloc(2 * ranks * sizeof(MPI_Request));
  if (parts == NULL || requests == NULL) {
    free(parts);
    free(requests);
    return 1;
  }
  char *const mine = parts + ranks * bytes_per_rank;
  memcpy(mine, send, bytes_per_rank);
  if (first) {
    if (MPI_Iallgather(mine, bytes, MPI_BYTE, parts, bytes, MPI_BYTE, over->mpi, requests) != MPI_SUCCESS) return 1;
    if (xylWaitMPI(requests, -1) != 0) return 1;
  } else {
    if (over->duplicate == MPI_COMM_NULL) {
      if (MPI_Comm_idup(over->mpi, &over->duplicate, requests) != MPI_SUCCESS) return 1;
      if (xylWaitMPI(requests, -1) != 0) return 1;
      MPI_Comm_set_errhandler(over->duplicate, MPI_ERRORS_RETURN);
    }
    if (xylMessagesMPI(over, parts, bytes, requests) != 0) return 1;
  }
  memcpy(recv, parts, ranks * bytes_per_rank);
  free(parts);
  free(requests);
  over->left = 0;
  return 0;
}

/* Creates the communicator of this rank of `mpi`: same ranks, same order. Collective over `mpi`, which is used only
 * before this returns (through a duplicate, so its pending messages do not matter) and may be freed afterwards. The
 * Xylem communicator stays usable after MPI_Finalize. MPI must be initialised. No rank waits for ever for another that
 * has died (mpirun kills all ranks then, unless it is started with --enable-recovery): see xylCommInitWait.
 *
 * Errors (*comm is then NULL): those of xylCommInitOob, whose text xylGetLastError(NULL) gives (xylRemoteError also
 * where MPI fails); and, with the text on standard error because the library was not reached:
 *   xylInvalidArgument: comm is NULL, or mpi is MPI_COMM_NULL;
 *   xylInvalidUsage: MPI is not initialised, or Slurm started several tasks of which each is alone in its own
 *     MPI_COMM_WORLD (srun and the MPI library do not share a start-up protocol; the text says what to type).
 * Where another rank has died or did not come, a duplicate of `mpi` and some memory stay behind, which MPI may still
 * use. */
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

  struct xylOverMPI over = {mpi, MPI_COMM_NULL, 0, 0, 0, 0};
  MPI_Comm_size(mpi, &over.ranks);
  MPI_Comm_rank(mpi, &over.rank);
  const xylResult_t result = xylCommInitOob(comm, over.ranks, over.rank, xylAllgatherMPI, &over);
  if (over.duplicate != MPI_COMM_NULL && !over.left) MPI_Comm_free(&over.duplicate);
  return result;
}

#endif
