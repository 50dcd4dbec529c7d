/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The smallest whole program: every rank contributes its number, every rank gets the sum.
 *
 *   mpicc allreduce.c $(pkg-config --cflags --libs xylem) -o allreduce && mpirun -np 4 ./allreduce
 */
#include <mpi.h>
#include <stdio.h>
#include <xylem/xylem.h>
#include <xylem/xylem_mpi.h>

int main(int argc, char **argv) {
  xylComm_t comm;
  float values[3];
  int rank, ranks, wrong = 0;

  MPI_Init(&argc, &argv);
  if (xylCommInitMPI(&comm, MPI_COMM_WORLD) != xylSuccess) {
    fprintf(stderr, "cannot start: %s\n", xylGetLastError(NULL));
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  xylCommUserRank(comm, &rank);
  xylCommCount(comm, &ranks);

  for (int i = 0; i < 3; ++i) values[i] = (float)(rank + i);
  if (xylAllReduce(values, values, 3, xylFloat32, xylSum, comm, NULL) != xylSuccess) {
    fprintf(stderr, "rank %d: %s\n", rank, xylGetLastError(comm));
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  for (int i = 0; i < 3; ++i)
    if (values[i] != (float)(ranks * (ranks - 1) / 2 + i * ranks)) wrong = 1;
  printf("rank %d of %d: %g %g %g%s\n", rank, ranks, values[0], values[1], values[2], wrong ? " WRONG" : "");

  xylCommDestroy(comm);
  MPI_Finalize();
  return wrong;
}
