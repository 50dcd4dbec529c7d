// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_fused.hpp"

#include "exec/host_row_epilogue.hpp"

namespace xyl {
namespace {

template <class T>
bool run(host_space& s, const host_call& c, const fused_work& w, fused_form form, const host_row_functions& loops) {
  host_row_kind<T> kind;
  kind.loops = &loops;
  return form == fused_form::two_shot ? fused_two_shot(s, c, w, kind) : fused_one_shot(s, c, w, kind);
}

}  // namespace

bool host_fused(host_space& s, const host_call& c, const fused_work& w, fused_form form, int type,
                const host_rows& rows) {
  if (type == xylFloat32) return run<float>(s, c, w, form, rows.float32);
  return type == xylFloat16 ? run<float16>(s, c, w, form, rows.float16)
                            : run<bfloat16>(s, c, w, form, rows.bfloat16);
}

}  // namespace xyl
