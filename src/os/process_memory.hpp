// SPDX-License-Identifier: BSD-3-Clause
//
// Reading another process's own memory through the kernel, which checks the address there and whether this process
// may: same user and not undumpable, no ptrace restriction, no seccomp filter against it, same process namespace.
// Whoever wants to rely on it must try.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace xyl {

// The number of bytes read, which may be fewer than asked for, or -1 with errno. As process_vm_readv, for one
// range.
using process_reader = ssize_t (*)(std::int64_t process, void* to, std::uint64_t address, std::size_t bytes);

ssize_t read_process_memory(std::int64_t process, void* to, std::uint64_t address, std::size_t bytes);

}  // namespace xyl
