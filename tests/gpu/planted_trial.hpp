// SPDX-License-Identifier: BSD-3-Clause
//
// The self-test's kernel with faults planted in chosen paths, for a program that puts it in the library's place.
#pragma once

#include "kernels/kernel_table.hpp"
#include "proto/sync_path.hpp"

namespace xyl::gpu_test {

enum class planted : int { none, never, slow, corrupt };

kernel planted_trial_kernel();
// On the current device, for launches from now on.
void plant(const planted (&faults)[sync_paths]);

}  // namespace xyl::gpu_test
