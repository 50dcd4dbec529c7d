// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of each rank for its inputs that all ranks reach, as registered buffers are: what the forms that pull read.
// Made and destroyed by all ranks together.
#pragma once

#include <vector>

#include "tests/gpu/device_rank.hpp"

namespace xyl::gpu_test {

class shared_inputs {
 public:
  shared_inputs(device_rank& r, std::size_t bytes) : r_(r) {
    void* allocated = nullptr;
    must(cudaMalloc(&allocated, bytes), "cudaMalloc");
    own_ = static_cast<std::byte*>(allocated);
    if (r_.ranks() == 1) return;
    exported_memory mine{};
    must(r_.side().export_memory(own_, mine), "export_memory");
    std::vector<exported_memory> all(static_cast<std::size_t>(r_.ranks()));
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    int reached = 1;
    for (int p = 0; p < r_.ranks(); ++p) {
      std::byte* there = own_;
      void* opened = nullptr;
      if (p != r_.rank())
        reached &= r_.side().open_memory(all[static_cast<std::size_t>(p)], p, false, there, opened).ok();
      if (opened) opened_.push_back(opened);
      of_[p] = there;
    }
    MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    are_reached_ = reached != 0;
  }
  ~shared_inputs() {
    must(r_.side().drain(), "drain");
    MPI_Barrier(MPI_COMM_WORLD);
    for (void* opened : opened_) r_.side().close_memory(opened);
    MPI_Barrier(MPI_COMM_WORLD);
    (void)cudaFree(own_);
  }
  shared_inputs(const shared_inputs&) = delete;
  shared_inputs& operator=(const shared_inputs&) = delete;

  std::byte* own() const { return own_; }
  // By rank, as this rank reaches it.
  const std::byte* const* of() const { return of_; }
  // Whether all ranks reach all of it.
  bool are_reached() const { return are_reached_; }

 private:
  device_rank& r_;
  std::byte* own_ = nullptr;
  const std::byte* of_[device_capacity] = {};
  std::vector<void*> opened_;
  bool are_reached_ = false;
};

}  // namespace xyl::gpu_test
