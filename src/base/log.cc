// SPDX-License-Identifier: BSD-3-Clause
//
// Formats into a buffer on the stack: a warning must come out also when memory has run out.
#include "base/log.hpp"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace xyl {
namespace {

struct host_name {
  char text[65] = "?";
  host_name() {
    if (::gethostname(text, sizeof text) != 0) std::strcpy(text, "?");
    text[sizeof text - 1] = '\0';
  }
};

// Asked first, because write(2) waits for the reader of a full pipe, and raises SIGPIPE where the reader has gone.
// A pipe that polls as writable has room for PIPE_BUF bytes.
bool takes_a_line(int fd) {
  pollfd one{fd, POLLOUT, 0};
  return ::poll(&one, 1, 0) == 1 && one.revents == POLLOUT;
}

}  // namespace

void log_line(log_level level, int rank, const char* format, ...) {
  if (!log_enabled(level)) return;
  const int saved_errno = errno;
  static const host_name host;

  char line[PIPE_BUF];
  // The process number is asked for each time: a child after fork has its own.
  const int process = static_cast<int>(::getpid());
  const int prefix =
      rank == no_rank
          ? std::snprintf(line, sizeof line, "xylem %s [%s:%d] ", name_of(level), host.text, process)
          : std::snprintf(line, sizeof line, "xylem %s [%s:%d rank %d] ", name_of(level), host.text, process, rank);
  const std::size_t start = static_cast<std::size_t>(std::max(prefix, 0));
  const std::size_t room = sizeof line - start - 1;  // one byte stays for the line break
  va_list list;
  va_start(list, format);
  const int wanted = std::vsnprintf(line + start, room, format, list);
  va_end(list);
  std::size_t length = start;
  if (wanted > 0) {
    length += std::min(static_cast<std::size_t>(wanted), room - 1);
    if (static_cast<std::size_t>(wanted) >= room) std::memcpy(line + length - 3, "...", 3);
  }
  std::replace(line, line + length, '\n', ' ');
  line[length++] = '\n';
  // A full or closed stderr is no reason to fail or to wait: what cannot be written is lost.
  if (takes_a_line(STDERR_FILENO))
    while (::write(STDERR_FILENO, line, length) < 0 && errno == EINTR) {
    }
  errno = saved_errno;
}

}  // namespace xyl
