// SPDX-License-Identifier: BSD-3-Clause
//
// What follows an allreduce where it is not fused: residual += sum, output = RMSNorm(residual), in one separate
// pass, as programs without a fused call do it. On host memory a loop, on device memory a kernel.
#pragma once

#include <cstddef>

#include "xylem/xylem.h"

namespace xyl {

struct norm_call {
  xylDataType_t type;  // xylFloat16, xylBfloat16 or xylFloat32
  std::size_t tokens;
  std::size_t hidden;  // a multiple of 8, at most 16384
  float eps;
  bool gemma_style;
  bool fp32_weight;  // else of the type
  const std::byte* sum;
  std::byte* residual;  // read and written
  const std::byte* weight;
  std::byte* output;
};

void add_norm_on_host(const norm_call& call);

// Enqueues it; a cudaError_t. In builds with CUDA only.
int add_norm_on_device(const norm_call& call, xylStream_t stream);

}  // namespace xyl
