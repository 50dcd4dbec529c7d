// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/fused_table.hpp"

#include <vector>

#include "kernels/fused_limits.hpp"

namespace xyl {
namespace {

struct type_entry {
  xylDataType_t type;
  std::array<fused_family, device_fused_forms> family;  // by form
};

// In the two-shot form of bulk data owners need what quantises, and have little to do else.
template <fused_form Form, class T>
fused_family family_of() {
  fused_family family;
  if constexpr (has_fused_kernels(Form, sizeof(T)) && Form != fused_form::two_shot_slices)
    family = fused_kernels<Form, T>();
  if constexpr (Form != fused_form::two_shot && !std::is_same_v<T, float>)
    family.plain = plain_fused_kernels<Form, T>();
  return family;
}

template <class T>
type_entry entry(xylDataType_t type) {
  return {type,
          {family_of<fused_form::packet, T>(), family_of<fused_form::two_shot_packet, T>(),
           family_of<fused_form::one_shot, T>(), family_of<fused_form::two_shot_slices, T>(),
           family_of<fused_form::two_shot, T>(), family_of<fused_form::one_shot_pull, T>()}};
}

const std::array<type_entry, 3>& table() {
  static const std::array<type_entry, 3> all = {entry<float16>(xylFloat16), entry<bfloat16>(xylBfloat16),
                                                entry<float>(xylFloat32)};
  return all;
}

}  // namespace

kernel choose_fused_kernel(fused_form form, xylDataType_t type, const fused_work& work, int ranks) {
  for (const type_entry& e : table()) {
    if (e.type != type) continue;
    const fused_family& family = e.family[static_cast<std::size_t>(form)];
    const int fixed = ranks == 2 ? 0 : ranks == 4 ? 1 : ranks == 8 ? 2 : -1;
    if (fixed < 0 || work.experts != 0) return family.any;
    if (!quantises(work.pattern) && family.plain[fixed].function) return family.plain[fixed];
    return family.fixed[fixed].function ? family.fixed[fixed] : family.any;
  }
  return {};
}

kernel choose_rows_kernel(xylDataType_t type, fused_pattern pattern, rows_spread spread) {
  const auto of_type = [&]<class T>(T) {
    const auto of_spread = [&]<rows_spread Spread>(std::integral_constant<rows_spread, Spread>) {
      return quantises(pattern) ? rows_kernel_of<T, true, Spread>() : rows_kernel_of<T, false, Spread>();
    };
    if constexpr (has_wide_rows(sizeof(T)))
      if (spread == rows_spread::wide) return of_spread(std::integral_constant<rows_spread, rows_spread::wide>());
    return of_spread(std::integral_constant<rows_spread, rows_spread::narrow>());
  };
  if (type == xylFloat16) return of_type(float16{});
  if (type == xylBfloat16) return of_type(bfloat16{});
  return type == xylFloat32 ? of_type(float{}) : kernel{};
}

std::span<const fused_kernel_entry> all_fused_kernels() {
  static const std::vector<fused_kernel_entry> all = [] {
    std::vector<fused_kernel_entry> list;
    for (const type_entry& e : table())
      for (std::size_t f = 0; f < e.family.size(); ++f) {
        const auto form = static_cast<fused_form>(f);
        if (e.family[f].any.function) list.push_back({form, e.family[f].any});
        for (const auto* some : {&e.family[f].fixed, &e.family[f].plain})
          for (const kernel& k : *some)
            if (k.function) list.push_back({form, k});
      }
    return list;
  }();
  return all;
}

}  // namespace xyl
