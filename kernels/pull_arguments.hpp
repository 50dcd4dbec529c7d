// SPDX-License-Identifier: BSD-3-Clause
//
// What kernels on registered buffers are given besides a call. Compiles with any compiler.
#pragma once

#include "kernels/arguments.hpp"
#include "proto/forms.hpp"
#include "proto/movement.hpp"

namespace xyl {

template <int Capacity>
struct pull_arguments : kernel_arguments<Capacity> {
  // See pull_call.
  const std::byte* input_of[Capacity] = {};
  std::byte* output_of[Capacity] = {};
  bool inputs_aligned = false, outputs_aligned = false;
  pull_form form = pull_form::one_shot;  // of reductions
  movement how;                          // of what only moves data, and
  window_use use = window_use::inputs;   // in which way
};
static_assert(sizeof(pull_arguments<argument_capacity(0)>) <= 4096);  // what every driver passes to a kernel

}  // namespace xyl
