// SPDX-License-Identifier: BSD-3-Clause
//
// What the threads of all processes of a run agree on: meetings, extremes, sums, an allgather. Processes talk by
// MPI, threads of a process through a `crew`; thread 0 of each process alone calls MPI, which must have been
// initialised with MPI_THREAD_SERIALIZED if that is not always the same thread. All threads call the same functions
// in the same order.
#pragma once

#include <mpi.h>

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xyl {

// Shared by the threads of one process.
class crew {
 public:
  crew(int threads, MPI_Comm mpi);

 private:
  friend class seat;
  int threads_;
  MPI_Comm mpi_;
  std::barrier<> door_;
  std::vector<double> doubles_;  // one of each thread
  std::vector<std::int64_t> integers_;
  double double_ = 0;  // what was agreed on
  std::int64_t integer_ = 0;
  std::vector<std::byte> own_;  // of an allgather
  std::vector<std::byte> all_;
};

// One thread's place in its crew.
class seat {
 public:
  seat(crew& c, int thread) : crew_(&c), thread_(thread) {}
  int thread() const { return thread_; }
  MPI_Comm mpi() const { return crew_->mpi_; }

  void barrier();
  double largest(double value);
  std::int64_t smallest(std::int64_t value);
  std::int64_t sum(std::int64_t value);
  // Blocks lie in the order of processes, and of threads within a process. 0, or MPI's code.
  int allgather(const void* send, void* recv, std::size_t bytes_per_thread);

 private:
  template <class Combine>
  std::int64_t agree(std::int64_t value, MPI_Op operation, Combine combine);

  crew* crew_;
  int thread_;
};

}  // namespace xyl
