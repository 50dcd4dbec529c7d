// SPDX-License-Identifier: BSD-3-Clause
//
// Which fused kernels exist. Compiles with any compiler; the functions fused_kernels are instantiated in
// kernels/fused_*.cu, plain_fused_kernels in files of their own: less of their code depends on the SM.
#pragma once

#include "kernels/fused_limits.hpp"
#include "kernels/kernel_table.hpp"
#include "proto/fused_work.hpp"

namespace xyl {

// For 2, 4 and 8 ranks; null where they do not exist.
using fixed_kernels = std::array<kernel, 3>;

// `plain` are those that do not quantise.
struct fused_family {
  kernel any;
  fixed_kernels fixed, plain;
};

// All of a family but the plain ones.
template <fused_form Form, class T>
fused_family fused_kernels();
template <fused_form Form, class T>
fixed_kernels plain_fused_kernels();

// Of the second step of a call in two.
template <class T, bool Quantises, rows_spread Spread>
kernel rows_kernel_of();

// function is null for a type that has none.
kernel choose_fused_kernel(fused_form form, xylDataType_t type, const fused_work& work, int ranks);

// Narrow where there is no wide one.
kernel choose_rows_kernel(xylDataType_t type, fused_pattern pattern, rows_spread spread);

struct fused_kernel_entry {
  fused_form form;
  kernel function;
};
// Every kernel once.
std::span<const fused_kernel_entry> all_fused_kernels();

}  // namespace xyl
