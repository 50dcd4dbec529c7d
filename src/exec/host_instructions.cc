// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_instructions.hpp"

#include "exec/host_reduction_tables.hpp"
#include "exec/host_row.hpp"

namespace xyl {

instruction_set usable_instructions(instruction_set wish) {
#if defined(__x86_64__) && defined(XYLEM_HAVE_X86_TABLES)
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && (wish == instruction_set::automatic || wish == instruction_set::avx512))
    return instruction_set::avx512;
  if (avx2 && wish != instruction_set::baseline) return instruction_set::avx2;
#else
  static_cast<void>(wish);
#endif
  return instruction_set::baseline;
}

const host_reductions& choose_host_reductions(instruction_set wish) {
#if defined(__x86_64__) && defined(XYLEM_HAVE_X86_TABLES)
  const instruction_set isa = usable_instructions(wish);
  if (isa == instruction_set::avx512) return host_reductions_of<instruction_set::avx512>();
  if (isa == instruction_set::avx2) return host_reductions_of<instruction_set::avx2>();
#else
  static_cast<void>(wish);
#endif
  return host_reductions_of<instruction_set::baseline>();
}

const host_rows& choose_host_rows(instruction_set wish) {
#if defined(__x86_64__) && defined(XYLEM_HAVE_X86_TABLES)
  const instruction_set isa = usable_instructions(wish);
  if (isa == instruction_set::avx512) return host_rows_of<instruction_set::avx512>();
  if (isa == instruction_set::avx2) return host_rows_of<instruction_set::avx2>();
#else
  static_cast<void>(wish);
#endif
  return host_rows_of<instruction_set::baseline>();
}

}  // namespace xyl
