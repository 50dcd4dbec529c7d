// SPDX-License-Identifier: BSD-3-Clause
//
// How a process is let into sealed memory of another one after initialisation: through /proc, which the ranks'
// kernel guards as it guards their own memory. That what was opened is the right file is told by its number in the
// kernel, which no two living files share.
#pragma once

#include <cstdint>

#include "os/sealed_memory.hpp"

namespace xyl {

// Plain bytes.
struct shared_buffer {
  std::uint64_t device, file;  // of the file, as the kernel numbers them
  std::uint64_t bytes;         // of the whole memory
  std::int32_t fd;             // in its process
  std::int32_t reserved;

  static result of(const sealed_memory& memory, shared_buffer& out);
  // process: as this one calls it; 0: it cannot.
  result open(std::int64_t process, sealed_memory& out) const;
};

}  // namespace xyl
