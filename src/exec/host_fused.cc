// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_fused.hpp"

#include "exec/host_row_epilogue.hpp"

namespace xyl {
namespace {

template <class T>
bool run(host_space& s, const host_call& c, const fused_work& w, fused_form form, const std::byte* const* input_of,
         const host_row_functions& loops) {
  host_row_kind<T> kind;
  kind.loops = &loops;
  if (form == fused_form::one_shot_pull) return fused_one_shot_pull(s, c, w, input_of, kind);
  if (form == fused_form::two_shot_pull) return fused_two_shot_pull(s, c, w, input_of, kind);
  return form == fused_form::two_shot ? fused_two_shot(s, c, w, kind) : fused_one_shot(s, c, w, kind);
}

}  // namespace

bool host_fused(host_space& s, const host_call& c, const fused_work& w, fused_form form,
                const std::byte* const* input_of, int type, const host_rows& rows) {
  if (type == xylFloat32) return run<float>(s, c, w, form, input_of, rows.float32);
  return type == xylFloat16 ? run<float16>(s, c, w, form, input_of, rows.float16)
                            : run<bfloat16>(s, c, w, form, input_of, rows.bfloat16);
}

}  // namespace xyl
