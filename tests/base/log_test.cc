// SPDX-License-Identifier: BSD-3-Clause
//
// The form of a line, what is written at which level, and that a line is one write of bounded size.
#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.hpp"

namespace xyl {
namespace {

// Stands in for stderr. A datagram socket keeps the border of each write.
class captured_stderr {
 public:
  captured_stderr() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
    near_ = unique_fd(pair[0]);
    saved_ = unique_fd(::dup(STDERR_FILENO));
    ::dup2(pair[1], STDERR_FILENO);
    ::close(pair[1]);
  }
  ~captured_stderr() {
    ::dup2(saved_.get(), STDERR_FILENO);
    set_log_level(log_level::warn);
  }
  // One write, or "" if there was none.
  std::string next() {
    char buffer[2 * PIPE_BUF];
    const ssize_t n = ::recv(near_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return n < 0 ? "" : std::string(buffer, static_cast<std::size_t>(n));
  }

 private:
  unique_fd near_;
  unique_fd saved_;
};

std::string origin(const std::string& rank) {
  char host[65] = "";
  ::gethostname(host, sizeof host);
  return "[" + std::string(host) + ":" + std::to_string(::getpid()) + rank + "] ";
}

TEST(log, a_line_says_level_host_process_and_rank) {
  captured_stderr captured;
  log_line(log_level::warn, 3, "peer %d is %s", 5, "gone");
  EXPECT_EQ(captured.next(), "xylem WARN " + origin(" rank 3") + "peer 5 is gone\n");
  log_line(log_level::warn, no_rank, "alone");
  EXPECT_EQ(captured.next(), "xylem WARN " + origin("") + "alone\n");
}

TEST(log, levels_above_the_threshold_are_silent) {
  const log_level levels[] = {log_level::warn, log_level::info, log_level::trace};
  captured_stderr captured;
  for (log_level threshold : levels) {
    set_log_level(threshold);
    for (log_level level : levels) {
      EXPECT_EQ(log_enabled(level), level <= threshold);
      log_line(level, 0, "text");
      const std::string line = captured.next();
      EXPECT_EQ(!line.empty(), level <= threshold);
      if (level <= threshold) {
        EXPECT_EQ(line.rfind(std::string("xylem ") + name_of(level) + " [", 0), 0u) << line;
      }
    }
  }
}

TEST(log, a_long_text_is_one_bounded_write) {
  captured_stderr captured;
  log_line(log_level::warn, 0, "%s", std::string(3 * PIPE_BUF, 'x').c_str());
  const std::string line = captured.next();
  EXPECT_LE(line.size(), static_cast<std::size_t>(PIPE_BUF));
  EXPECT_GT(line.size(), static_cast<std::size_t>(PIPE_BUF) - 8);
  EXPECT_EQ(line.substr(line.size() - 5), "x...\n");
  EXPECT_EQ(captured.next(), "");
}

TEST(log, line_breaks_in_a_text_do_not_start_lines) {
  captured_stderr captured;
  log_line(log_level::warn, 0, "one\ntwo");
  EXPECT_EQ(captured.next(), "xylem WARN " + origin(" rank 0") + "one two\n");
}

TEST(log, keeps_errno_and_survives_a_closed_stderr) {
  captured_stderr captured;
  ::close(STDERR_FILENO);
  errno = ENOENT;
  log_line(log_level::warn, 0, "lost");
  EXPECT_EQ(errno, ENOENT);
}

TEST(log, neither_waits_for_a_full_pipe_nor_dies_of_one_that_nobody_reads) {
  captured_stderr captured;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  unique_fd reader(ends[0]), writer(ends[1]);
  ASSERT_EQ(::dup2(writer.get(), STDERR_FILENO), STDERR_FILENO);
  const std::string long_text(3 * PIPE_BUF, 'x');
  ::alarm(10);
  for (int i = 0; i < 100; ++i) log_line(log_level::warn, 0, "%s", long_text.c_str());  // a pipe holds 16 of them
  ::alarm(0);
  reader.reset();
  log_line(log_level::warn, 0, "lost");
}

}  // namespace
}  // namespace xyl
