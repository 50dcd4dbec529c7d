// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a sum whose result is known through every family of kernels, once, when a communicator is made: a kernel
// that was built empty, or that this GPU executes wrongly, is found before it touches a user's data.
#pragma once

#include <memory>

#include "exec/device_side.hpp"

namespace xyl {

// Made on every rank before any rank runs it, and destroyed after all have: allocating and freeing device memory
// may wait for all kernels of the device, also those of another rank that wait for this one.
class kernel_check {
 public:
  virtual ~kernel_check() = default;

  // `side` is connected and outlives this.
  static result create(device_side& side, int rank, int ranks, std::unique_ptr<kernel_check>& out);

  // Collective over the ranks of `side`; the same everywhere. fused_blocks: co-resident, by form; clusters: whether
  // rows may be a cluster of blocks; copies: whether the kernels between copies may run, of which several wait at
  // once, on streams of their own: two ranks of a process on one GPU could get in each other's way. The result is
  // this rank's own finding. Fails with the family's name if a sum is wrong, or as the launch fails.
  virtual result run(std::span<const unsigned, device_fused_forms> fused_blocks, bool clusters, bool copies) = 0;
};

}  // namespace xyl
