// SPDX-License-Identifier: BSD-3-Clause
// The text goes through a file in memory, not a pipe: nobody waits for a reader that has died.
#include "tools/topo_graphviz.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.hpp"

extern char** environ;

namespace xyl {

result draw_svg(const std::string& dot_text, const char* program) {
  const unique_fd text(memfd_create("xylem-topo", MFD_CLOEXEC));
  if (!text) return system_error("memfd_create");
  for (std::size_t done = 0; done < dot_text.size();) {
    const ssize_t count = write(text.get(), dot_text.data() + done, dot_text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("cannot write the drawing");
    done += static_cast<std::size_t>(count);
  }
  if (lseek(text.get(), 0, SEEK_SET) != 0) return system_error("lseek");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, text.get(), STDIN_FILENO);
  char name[] = "dot", option[] = "-Tsvg";
  char* const arguments[] = {name, option, nullptr};
  pid_t child = -1;
  const int failure = posix_spawnp(&child, program, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT)
    return error(xylSystemError,
                 "Graphviz's program %s is not installed (Debian, Ubuntu: apt-get install graphviz); --format dot "
                 "writes what it would draw",
                 program);
  if (failure != 0) return error(xylSystemError, "%s does not start: %s", program, std::strerror(failure));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return system_error("waitpid");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return error(xylSystemError, "%s failed (status %d); --format dot writes what it should draw", program, status);
}

}  // namespace xyl
