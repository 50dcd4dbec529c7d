// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/pull.cuh"

template xyl::pull_families xyl::pull_kernels<xyl::float8>();
template xyl::pull_families xyl::pull_kernels<xyl::packed>();
