// SPDX-License-Identifier: BSD-3-Clause
//
// Between two passages of the door only thread 0 touches what was agreed on, and after the second one all read it.
// A thread that hurries on to the next call can write its own place only, until the others have come as well.
#include "tools/perf_crew.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

namespace xyl {

crew::crew(int threads, MPI_Comm mpi)
    : threads_(threads),
      mpi_(mpi),
      door_(threads),
      doubles_(static_cast<std::size_t>(threads)),
      integers_(static_cast<std::size_t>(threads)) {}

void seat::barrier() {
  crew_->door_.arrive_and_wait();
  if (thread_ == 0) MPI_Barrier(crew_->mpi_);
  crew_->door_.arrive_and_wait();
}

double seat::largest(double value) {
  crew_->doubles_[static_cast<std::size_t>(thread_)] = value;
  crew_->door_.arrive_and_wait();
  if (thread_ == 0) {
    const double here = *std::max_element(crew_->doubles_.begin(), crew_->doubles_.end());
    MPI_Allreduce(&here, &crew_->double_, 1, MPI_DOUBLE, MPI_MAX, crew_->mpi_);
  }
  crew_->door_.arrive_and_wait();
  return crew_->double_;
}

template <class Combine>
std::int64_t seat::agree(std::int64_t value, MPI_Op operation, Combine combine) {
  crew_->integers_[static_cast<std::size_t>(thread_)] = value;
  crew_->door_.arrive_and_wait();
  if (thread_ == 0) {
    std::int64_t here = value;
    for (std::size_t t = 1; t < crew_->integers_.size(); ++t) here = combine(here, crew_->integers_[t]);
    MPI_Allreduce(&here, &crew_->integer_, 1, MPI_INT64_T, operation, crew_->mpi_);
  }
  crew_->door_.arrive_and_wait();
  return crew_->integer_;
}

std::int64_t seat::smallest(std::int64_t value) {
  return agree(value, MPI_MIN, [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
}

std::int64_t seat::sum(std::int64_t value) {
  return agree(value, MPI_SUM, [](std::int64_t a, std::int64_t b) { return a + b; });
}

int seat::allgather(const void* send, void* recv, std::size_t bytes_per_thread) {
  crew& c = *crew_;
  const std::size_t own_bytes = bytes_per_thread * static_cast<std::size_t>(c.threads_);
  if (own_bytes > INT_MAX) return MPI_ERR_COUNT;
  int processes = 0;
  MPI_Comm_size(c.mpi_, &processes);
  const std::size_t all_bytes = own_bytes * static_cast<std::size_t>(processes);
  // The last call's readers have left `all_` before anybody comes through the second door below.
  c.door_.arrive_and_wait();
  if (thread_ == 0) {
    c.own_.resize(own_bytes);
    c.all_.resize(all_bytes);
  }
  c.door_.arrive_and_wait();
  std::memcpy(c.own_.data() + bytes_per_thread * static_cast<std::size_t>(thread_), send, bytes_per_thread);
  c.door_.arrive_and_wait();
  if (thread_ == 0)
    c.integer_ = MPI_Allgather(c.own_.data(), static_cast<int>(own_bytes), MPI_BYTE, c.all_.data(),
                               static_cast<int>(own_bytes), MPI_BYTE, c.mpi_);
  c.door_.arrive_and_wait();
  const int status = static_cast<int>(c.integer_);
  std::memcpy(recv, c.all_.data(), all_bytes);
  return status;
}

}  // namespace xyl
