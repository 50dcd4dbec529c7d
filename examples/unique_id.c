/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A communicator without MPI: one process makes a unique id, starts the ranks, and hands the id to them.
 *
 *   cc unique_id.c $(pkg-config --cflags --libs xylem) -o unique_id && ./unique_id 4
 *
 * Here the ranks are forked, so they have the id already. Programs that are started otherwise send them its 128 bytes
 * as they can: over a socket, through a file, with MPI_Bcast.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xylem/xylem.h>

static int run_rank(int ranks, int rank, xylUniqueId id) {
  xylComm_t comm;
  float values[3];
  int wrong = 0;

  if (xylCommInitRank(&comm, ranks, id, rank) != xylSuccess) {
    fprintf(stderr, "cannot start: %s\n", xylGetLastError(NULL));
    return 1;
  }
  for (int i = 0; i < 3; ++i) values[i] = (float)(rank + i);
  if (xylAllReduce(values, values, 3, xylFloat32, xylSum, comm, NULL) != xylSuccess) {
    fprintf(stderr, "rank %d: %s\n", rank, xylGetLastError(comm));
    return 1;
  }
  for (int i = 0; i < 3; ++i)
    if (values[i] != (float)(ranks * (ranks - 1) / 2 + i * ranks)) wrong = 1;
  printf("rank %d of %d: %g %g %g%s\n", rank, ranks, values[0], values[1], values[2], wrong ? " WRONG" : "");
  fflush(stdout);
  xylCommDestroy(comm);
  return wrong;
}

int main(int argc, char **argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 2;
  xylUniqueId id;
  int failed = 0;

  if (ranks < 1) {
    fprintf(stderr, "usage: %s [RANKS], 1 or more\n", argv[0]);
    return 2;
  }
  /* This process serves the id to the ranks, so it stays until they have ended. */
  if (xylGetUniqueId(&id) != xylSuccess) {
    fprintf(stderr, "no unique id: %s\n", xylGetLastError(NULL));
    return 1;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(run_rank(ranks, rank, id));
    if (child < 0) {
      /* The ranks that were started learn of this process's end and end, too. */
      perror("fork");
      return 1;
    }
  }
  for (int status; wait(&status) > 0;)
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) failed = 1;
  return failed;
}
