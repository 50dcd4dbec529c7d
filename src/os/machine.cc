// SPDX-License-Identifier: BSD-3-Clause
#include "os/machine.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace xyl {

result fill_random(void* data, std::size_t bytes) {
  auto* at = static_cast<std::uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t n = ::getrandom(at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("no random bytes from the kernel");
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

result current_process(process_token& out) {
  static std::mutex guard;
  static pid_t made_by = 0;
  static process_token token;
  const std::lock_guard lock(guard);
  // A forked child inherits the token; its process number tells that the token is not its own.
  if (made_by != ::getpid()) {
    XYL_TRY(fill_random(token.data(), token.size()));
    made_by = ::getpid();
  }
  out = token;
  return {};
}

result current_boot(boot_identity& out) {
  static constexpr const char* path = "/proc/sys/kernel/random/boot_id";
  static constexpr std::size_t length = 36;
  const unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return system_error("cannot open %s, by which ranks find out that they share a machine", path);
  out.fill(0);
  const ssize_t n = ::read(file.get(), out.data(), length);
  if (n < 0) return system_error("cannot read %s", path);
  if (static_cast<std::size_t>(n) != length) return error(xylSystemError, "%s holds only %zd bytes", path, n);
  return {};
}

std::uint64_t process_namespace() {
  struct stat status;
  if (::stat("/proc/self/ns/pid", &status) != 0) return 0;
  return status.st_ino;
}

unique_fd open_process(std::int64_t process) {
#ifdef SYS_pidfd_open
  // Close-on-exec is implied.
  return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0)));
#else
  (void)process;
  return {};
#endif
}

}  // namespace xyl
