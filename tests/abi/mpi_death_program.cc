// SPDX-License-Identifier: BSD-3-Clause
//
// A rank of an MPI program that is killed while the ranks initialise over MPI (xylem_mpi.h), of whose death MPI says
// nothing: mpi_death_program EXCHANGE; the last rank dies before that exchange, counted from 1. Every other rank prints
// a line, "rank 0: good", or what was wrong, and ends without MPI, which could wait for ever.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "xylem/xylem_mpi.h"

namespace {

struct dying {
  xylOverMPI over;
  int exchange;  // 0: does not
  int number;

  static int call(void* self, const void* send, void* recv, std::size_t bytes) {
    auto& d = *static_cast<dying*>(self);
    if (++d.number == d.exchange) ::kill(::getpid(), SIGKILL);
    return xylAllgatherMPI(&d.over, send, recv, bytes);
  }
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2 || ranks < 2) return 2;
  const int victim = ranks - 1;
  dying context{{MPI_COMM_WORLD, MPI_COMM_NULL, ranks, rank, 0, 0}, rank == victim ? std::atoi(argv[1]) : 0, 0};
  MPI_Barrier(MPI_COMM_WORLD);
  const std::int64_t began = xyl::now_ns();
  xylComm_t comm = nullptr;
  const xylResult_t code = xylCommInitOob(&comm, ranks, rank, dying::call, &context);
  const char* text = xylGetLastError(nullptr);
  char name[32];
  std::snprintf(name, sizeof name, "rank %d (process", victim);
  // Generous: what it is about are waits without an end.
  const bool good = code == xylRemoteError && std::strstr(text, name) != nullptr && comm == nullptr &&
                    xyl::now_ns() - began < 10'000'000'000;
  std::printf("rank %d: %s: %d: %s\n", rank, good ? "good" : "wrong", code, text);
  std::fflush(stdout);
  ::_exit(good ? 0 : 1);
}
