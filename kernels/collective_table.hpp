// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels of the collectives other than allreduce, as handles for the CUDA runtime. Compiles with any compiler.
#pragma once

#include "kernels/kernel_table.hpp"
#include "proto/forms.hpp"

namespace xyl {

struct reduce_families {
  kernel_family packet, direct, two_phase;
  kernel copied;  // waits for nobody
  kernel swap;    // sums of two ranks; of no function for types of which these are rare
};
template <class T>
reduce_families reduce_kernels();  // kernels/reduce_*.cu

struct move_kernels {
  std::array<kernel, 4> packet;  // for any number of ranks, for 2, 4 and 8
  kernel exchange, spread_broadcast, transfer;
  kernel swap;  // of two ranks
};
move_kernels movement_kernels();  // kernels/movement.cu
// The step is one block, the other waits for nobody.
struct copy_kernels {
  kernel step, deliver;
};
copy_kernels copying_kernels();   // kernels/movement.cu
kernel scaling_kernel(int type);  // kernels/scale.cu; an element type

// function is null for a type that does not exist. operation: what is combined with.
kernel choose_reduce_kernel(reduce_form form, xylDataType_t type, xylRedOp_t operation, int ranks);
// whole: see moves_whole_units().
kernel choose_move_kernel(move_form form, int ranks, bool whole);
kernel choose_copied_kernel(xylDataType_t type);
// Of long_swap.hpp; function is null where there is none.
kernel choose_swap_kernel();
kernel choose_swap_sum_kernel(xylDataType_t type);

// Those of this table that wait for peers, once each.
std::span<const kernel> all_collective_kernels();

}  // namespace xyl
