// SPDX-License-Identifier: BSD-3-Clause
#include "peer/shared_buffer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace xyl {

result shared_buffer::of(const sealed_memory& memory, shared_buffer& out) {
  struct stat status;
  if (::fstat(memory.fd(), &status) != 0) return system_error("cannot look at shared memory");
  out = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino), memory.size(),
         memory.fd(), 0};
  return {};
}

result shared_buffer::open(std::int64_t process, sealed_memory& out) const {
  if (process == 0) return error(xylSystemError, "the processes are in different process namespaces");
  const std::string path = format_text("/proc/%lld/fd/%d", static_cast<long long>(process), fd);
  unique_fd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) return system_error("cannot open %s", path.c_str());
  struct stat status;
  if (::fstat(opened.get(), &status) != 0) return system_error("cannot look at %s", path.c_str());
  if (static_cast<std::uint64_t>(status.st_dev) != device || static_cast<std::uint64_t>(status.st_ino) != file)
    return error(xylSystemError, "%s is something else", path.c_str());
  sealed_memory adopted;
  XYL_TRY(sealed_memory::adopt(std::move(opened), bytes, adopted));
  adopted.close_fd();  // the mapping is enough
  out = std::move(adopted);
  return {};
}

}  // namespace xyl
