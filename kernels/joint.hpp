// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels of proto/joint.hpp and what they are given. They wait for nobody. Compiles with any compiler.
#pragma once

#include <span>

#include "kernels/arguments.hpp"
#include "kernels/kernel_table.hpp"
#include "proto/joint.hpp"

namespace xyl {

struct joint_reduce_arguments {
  joint_reduction<argument_capacity(0)> what;
  std::int32_t operation = 0;  // xylRedOp_t, what is combined with
  std::int32_t type = 0;       // xylDataType_t of the elements
  std::uint32_t divisor = 1;
};
// The pieces of one launch: each has a row of the grid.
struct joint_move_arguments {
  static constexpr std::size_t most = 64;
  joint_piece all[most];
};
static_assert(sizeof(joint_move_arguments) <= 4096);  // what every driver passes to a kernel

// function is null for a type that does not exist.
kernel choose_joint_reduce_kernel(xylDataType_t type);
kernel joint_move_kernel();

}  // namespace xyl
