// SPDX-License-Identifier: BSD-3-Clause
//
// Device memory of the library's own for a while: what it measures itself with. It must not be in use when it ends.
#pragma once

#include <cstddef>

#include "base/result.hpp"

namespace xyl {

class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(const device_buffer&) = delete;
  ~device_buffer();

  // Cleared.
  result create(int device, std::size_t bytes);
  std::byte* data() const { return data_; }

 private:
  int device_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace xyl
