// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/reduce.cuh"

template xyl::reduce_families xyl::reduce_kernels<xyl::float8>();
template xyl::reduce_families xyl::reduce_kernels<xyl::packed>();
