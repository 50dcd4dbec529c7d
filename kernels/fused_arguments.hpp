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

}  // namespace xyl
