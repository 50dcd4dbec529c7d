// SPDX-License-Identifier: BSD-3-Clause
//
// The frame of GPU tests that are MPI programs: rank r uses device r % devices. Exit 77 without a GPU or with too
// few ranks, 1 if any rank had a failure.
#pragma once

#include <mpi.h>

#include "tests/gpu/must.hpp"

namespace xyl::gpu_test {

inline int rank_ = 0, ranks_ = 0, devices_ = 0;

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

// A part of the test, with a line about it.
template <class Test>
void step(const char* name, Test test) {
  MPI_Barrier(MPI_COMM_WORLD);
  const int before = failures;
  const double begin = MPI_Wtime();
  test();
  int bad = failures - before;
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank_ == 0) std::printf("%-50s %s %.2f s\n", name, bad ? "FAILED" : "ok", MPI_Wtime() - begin);
  std::fflush(stdout);
}

// What main() is.
template <class Body>
int mpi_program(int argc, char** argv, Body body, int least_ranks = 1) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  scene = "rank " + std::to_string(rank_);
  const bool has_gpu = cudaGetDeviceCount(&devices_) == cudaSuccess && devices_ > 0;
  int status = 77;
  if (has_gpu && ranks_ >= least_ranks) {
    must(cudaSetDevice(rank_ % devices_), "cudaSetDevice");
    body();
    MPI_Barrier(MPI_COMM_WORLD);
    int mine[2] = {checks, failures}, all[2] = {};
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank_ == 0) std::printf("%d ranks, %d GPUs: %d checks, %d failures\n", ranks_, devices_, all[0], all[1]);
    status = all[1] != 0;
  } else if (rank_ == 0) {
    if (has_gpu)
      std::printf("SKIP: at least %d ranks are wanted\n", least_ranks);
    else
      std::printf("SKIP: no GPU here\n");
  }
  MPI_Finalize();
  return status;
}

}  // namespace xyl::gpu_test
