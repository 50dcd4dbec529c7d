// SPDX-License-Identifier: BSD-3-Clause
//
// What a kernel is given, by value: the call, and what its waits need to give up. Compiles with any compiler; the
// host fills it, see exec/device_side_cuda.cc.
#pragma once

#include "base/launch_overlap.hpp"
#include "proto/call.hpp"
#include "proto/sync_path.hpp"

namespace xyl {

// Kernels made for a number of ranks have small arguments; the others take as many ranks as a device side may have.
constexpr int argument_capacity(int fixed_ranks) { return fixed_ranks ? fixed_ranks : 64; }

template <int Capacity>
struct kernel_arguments {
  std::uint64_t units_of_block = 0;  // what the protocol divides among its blocks, divided
  std::uint32_t lanes_of_group = 0;  // of kernels that group their lanes
  call<Capacity> what;
  control_block* host_control = nullptr;  // as the device reaches it
  launch_overlap overlap = launch_overlap::none;
  flag_order flags = flag_order::release;
  std::uint64_t deadline_ns = 0;  // the longest wait
};

}  // namespace xyl
