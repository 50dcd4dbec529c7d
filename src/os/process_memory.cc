// SPDX-License-Identifier: BSD-3-Clause
#include "os/process_memory.hpp"

#include <sys/uio.h>

namespace xyl {

ssize_t read_process_memory(std::int64_t process, void* to, std::uint64_t address, std::size_t bytes) {
  const iovec here{to, bytes};
  const iovec there{reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), bytes};
  return ::process_vm_readv(static_cast<pid_t>(process), &here, 1, &there, 1, 0);
}

}  // namespace xyl
