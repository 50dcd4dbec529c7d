// SPDX-License-Identifier: BSD-3-Clause
//
// The tables that host_reduction_kernels.cc makes, one per instruction set it was compiled for.
#pragma once

#include "exec/host_reduction.hpp"

namespace xyl {

template <instruction_set Isa>
const host_reductions& host_reductions_of();

template <>
const host_reductions& host_reductions_of<instruction_set::baseline>();
template <>
const host_reductions& host_reductions_of<instruction_set::avx2>();
template <>
const host_reductions& host_reductions_of<instruction_set::avx512>();

}  // namespace xyl
