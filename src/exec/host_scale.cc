// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_scale.hpp"

#include <cstring>

#include "exec/dispatch.hpp"

namespace xyl {

void scale_on_host(const scaling& s, void* to, const void* from, std::size_t elements) {
  element_types::for_each([&](auto entry, int) {
    if (entry.code != s.type) return;
    using T = typename decltype(entry)::type;
    using traits = element_traits<T>;
    T scalar;
    std::memcpy(&scalar, &s.bits, sizeof scalar);
    const auto factor = traits::decode(scalar);
    const T* const in = static_cast<const T*>(from);
    T* const out = static_cast<T*>(to);
    for (std::size_t i = 0; i < elements; ++i)
      out[i] = traits::encode(operation::prod::combine(factor, traits::decode(in[i])));
  });
}

}  // namespace xyl
