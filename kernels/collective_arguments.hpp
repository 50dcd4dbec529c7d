// SPDX-License-Identifier: BSD-3-Clause
//
// What the kernels of the collectives other than allreduce are given besides a call. Compiles with any compiler.
#pragma once

#include "exec/host_scale.hpp"
#include "kernels/arguments.hpp"
#include "proto/copied.hpp"
#include "proto/long_swap.hpp"
#include "proto/reduce_to.hpp"
#include "proto/transfer.hpp"

namespace xyl {

struct move_arguments : kernel_arguments<argument_capacity(0)> {
  movement how;
  bool pull = false;  // of exchange()
};

template <int Capacity>
struct reduce_arguments : kernel_arguments<Capacity> {
  reduce_target target;
};

// The transfers of one launch, at most one for a peer and direction. Each has its own blocks.
struct transfer_arguments : kernel_arguments<argument_capacity(0)> {
  static constexpr int most = 64;
  std::int32_t count = 0;
  transfer all[most];
};
static_assert(sizeof(transfer_arguments) <= 4096);  // what every driver passes to a kernel

// Of two ranks. A reduction's input, output and count are the call's.
struct swap_arguments : kernel_arguments<argument_capacity(2)> {
  swapped both;
  const std::byte* own = nullptr;
  std::byte* own_to = nullptr;
};

// Of what stands between copies; the call's input, output and count are the chunk's.
struct copy_arguments : kernel_arguments<argument_capacity(0)> {
  copy_step step;
  copied_chunk chunk;
  movement how;  // where it takes one phase; how.bytes are the chunk's, 0 where there is a chunk of shares
  std::byte* landed = nullptr;  // the chunk's slot in this device's memory

  XYL_FN copied_call call() const {
    return {what.input, what.output, what.count, what.rank, what.ranks, what.map.copy_stride, {landed}};
  }
};

struct scale_arguments {
  scaling by;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_stride = 0;  // bytes between the pieces; in the output they follow each other
  std::uint64_t elements = 0;      // of a piece
  std::int32_t pieces = 0;
};

}  // namespace xyl
