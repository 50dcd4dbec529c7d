// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/flagged.cuh"
#include "kernels/pull.cuh"

namespace xyl {

template flagged_families flagged_kernels<float16>();
template kernel_family pull_kernels<float16>();

}  // namespace xyl
