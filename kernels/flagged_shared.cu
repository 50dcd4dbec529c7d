// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/flagged.cuh"

template xyl::flagged_families xyl::flagged_kernels<xyl::float8>();
template xyl::flagged_families xyl::flagged_kernels<xyl::packed>();
