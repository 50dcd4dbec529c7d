// SPDX-License-Identifier: BSD-3-Clause
//
// Multiplying by a scalar before a sum, in host memory. A product is rounded to the element type, as it would be on
// its way to a peer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xyl {

struct scaling {
  int type = 0;                     // xylDataType_t, of the scalar and of what it is for
  std::uint64_t bits = 0;           // the scalar, in the first bytes,
  const void* on_device = nullptr;  // or where it is when the kernel runs

  friend bool operator==(const scaling&, const scaling&) = default;
};

// to[i] = scalar * from[i]; both aligned to the element. s.bits is the scalar.
void scale_on_host(const scaling& s, void* to, const void* from, std::size_t elements);

}  // namespace xyl
