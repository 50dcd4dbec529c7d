// SPDX-License-Identifier: BSD-3-Clause
//
// Who and where this process is: the facts that two ranks compare to find out whether they share a machine, a
// process or a process-number space. Relies on /proc for the boot identity and the namespace; without them the
// identity is an error (two machines must never look like one) and the namespace is 0, which equals nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace xyl {

// Made once per process; a child after fork has its own.
using process_token = std::array<std::uint8_t, 16>;

// The kernel's identity of this boot, as text of 36 characters.
using boot_identity = std::array<char, 40>;

result fill_random(void* data, std::size_t bytes);
result current_process(process_token& out);
result current_boot(boot_identity& out);

// Two processes see each other under the same process numbers if both have the same value, and it is not 0.
std::uint64_t process_namespace();

// Becomes readable when the process ends. Empty where the kernel does not allow it: then only a socket can watch.
unique_fd open_process(std::int64_t process);

}  // namespace xyl
