// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_fused.hpp"

#include "proto/fused.hpp"

namespace xyl {
namespace {

template <class T>
bool run(host_space& s, const host_call& c, const fused_work& w, fused_form form) {
  using kind = fused_kind<portable_codec<T>, portable_quantiser, 0>;
  return form == fused_form::two_shot ? fused_two_shot<kind>(s, c, w) : fused_one_shot<kind>(s, c, w);
}

}  // namespace

bool host_fused(host_space& s, const host_call& c, const fused_work& w, fused_form form, int type) {
  if (type == xylFloat32) return run<float>(s, c, w, form);
  return type == xylFloat16 ? run<float16>(s, c, w, form) : run<bfloat16>(s, c, w, form);
}

}  // namespace xyl
