// SPDX-License-Identifier: BSD-3-Clause
// The input goes through an unnamed file in memory, so that nothing can block on two full pipes.
#include "tools/filter_program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/unique_fd.hpp"

extern char** environ;

namespace xyl {
namespace {

result write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("writing the input of a program");
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

result read_all(int fd, std::string& out) {
  char buffer[65536];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("reading the output of a program");
    if (got == 0) return {};
    out.append(buffer, static_cast<std::size_t>(got));
  }
}

}  // namespace

result filter_through(const std::vector<std::string>& arguments, std::string_view input, std::string& out) {
  const unique_fd in(memfd_create("input", MFD_CLOEXEC));
  if (!in) return system_error("memfd_create");
  XYL_TRY(write_all(in.get(), input));
  if (lseek(in.get(), 0, SEEK_SET) != 0) return system_error("lseek");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("pipe2");
  const unique_fd from(ends[0]);
  unique_fd to(ends[1]);

  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
  pid_t child = -1;
  const int spawned = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0)
    return error(xylSystemError, "%s cannot be run: %s; is it installed?", argv[0], std::strerror(spawned));
  to.reset();
  std::string text;
  result got = read_all(from.get(), text);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return system_error("waiting for %s", argv[0]);
  XYL_TRY(std::move(got));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error(xylSystemError, "%s failed (%s %d)", argv[0], WIFEXITED(status) ? "exit status" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  out = std::move(text);
  return {};
}

}  // namespace xyl
