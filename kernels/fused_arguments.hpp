// SPDX-License-Identifier: BSD-3-Clause
//
// What a fused kernel is given, by value. Compiles with any compiler.
#pragma once

#include "kernels/arguments.hpp"
#include "proto/fused_work.hpp"

namespace xyl {

template <int Capacity>
struct fused_arguments : kernel_arguments<Capacity> {
  fused_work work;
  std::uint32_t teams = 0;  // of blocks that share rows
};

// And one that pulls: every rank's input, as this rank reaches it.
template <int Capacity>
struct fused_pull_arguments : fused_arguments<Capacity> {
  const std::byte* input_of[Capacity] = {};
};
static_assert(sizeof(fused_pull_arguments<argument_capacity(0)>) <= 4096);  // what every driver passes to a kernel

}  // namespace xyl
