// SPDX-License-Identifier: BSD-3-Clause
#include "os/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "os/machine.hpp"

namespace xyl {
namespace {

constexpr timespec between_looks{0, 200'000};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// What posix_spawn needs, given back in every case.
class spawn_settings {
 public:
  spawn_settings() {
    status_ = ::posix_spawn_file_actions_init(&files);
    if (status_ == 0) has_files_ = true, status_ = ::posix_spawnattr_init(&attributes);
    if (status_ == 0) has_attributes_ = true;
  }
  ~spawn_settings() {
    if (has_files_) ::posix_spawn_file_actions_destroy(&files);
    if (has_attributes_) ::posix_spawnattr_destroy(&attributes);
  }
  spawn_settings(const spawn_settings&) = delete;

  // A program of its own process group, so that what a terminal sends to ours ends it only with us, with the
  // signals of a fresh process.
  int prepare(int socket) {
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    if (status_ == 0) status_ = ::posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
    if (status_ == 0) status_ = ::posix_spawnattr_setsigmask(&attributes, &none);
    if (status_ == 0) status_ = ::posix_spawnattr_setsigdefault(&attributes, &all);
    if (status_ == 0)
      status_ = ::posix_spawnattr_setflags(&attributes,
                                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    return status_;
  }

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

 private:
  int status_ = 0;
  bool has_files_ = false, has_attributes_ = false;
};

}  // namespace

std::vector<std::string> environment_without(const char* const* environment,
                                             const std::vector<std::string_view>& left_out) {
  std::vector<std::string> kept;
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool wanted = true;
    for (std::string_view beginning : left_out) wanted = wanted && !text.starts_with(beginning);
    if (wanted) kept.emplace_back(text);
  }
  return kept;
}

child_process::child_process(child_process&& other) noexcept
    : process_(std::exchange(other.process_, -1)),
      handle_(std::move(other.handle_)),
      socket_(std::move(other.socket_)) {}

child_process& child_process::operator=(child_process&& other) noexcept {
  if (this != &other) {
    kill();
    process_ = std::exchange(other.process_, -1);
    handle_ = std::move(other.handle_);
    socket_ = std::move(other.socket_);
  }
  return *this;
}

result child_process::start(const std::string& path, const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment, child_process& out) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return system_error("socketpair");
  child_process child;
  child.socket_.reset(ends[0]);
  unique_fd theirs(ends[1]);
  // dup2 onto itself would leave close-on-exec set.
  if (theirs.get() == STDIN_FILENO) {
    theirs.reset(::fcntl(ends[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!theirs) return system_error("duplicating a descriptor");
  }
  std::vector<std::string> all{path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  spawn_settings settings;
  int status = settings.prepare(theirs.get());
  pid_t process = -1;
  if (status == 0)
    status = ::posix_spawn(&process, path.c_str(), &settings.files, &settings.attributes, pointers_to(all).data(),
                           pointers_to(environment).data());
  if (status != 0) return error(xylSystemError, "cannot start %s: %s", path.c_str(), std::strerror(status));
  child.process_ = process;
  child.handle_ = open_process(process);
  out = std::move(child);
  return {};
}

// -2: it runs still.
int child_process::reap(bool may_wait) {
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(process_, &status, may_wait ? 0 : WNOHANG);
  } while (found < 0 && errno == EINTR);
  if (found == 0) return -2;
  // Not found: the user's program waits for all children, or ignores their ends.
  process_ = -1;
  handle_.reset();
  return found > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int child_process::finish(deadline until) {
  socket_.reset();
  if (!running()) return -1;
  for (;;) {
    const int code = reap(false);
    if (code != -2) return code;
    if (until.passed()) {
      kill();
      return -1;
    }
    pollfd ends{handle_.get(), POLLIN, 0};
    if (handle_)
      ::poll(&ends, 1, until.left_ms());
    else
      ::nanosleep(&between_looks, nullptr);
  }
}

void child_process::kill() {
  socket_.reset();
  if (!running()) return;
  if (reap(false) != -2) return;
#ifdef SYS_pidfd_send_signal
  const bool sent = handle_ && ::syscall(SYS_pidfd_send_signal, handle_.get(), SIGKILL, nullptr, 0) == 0;
#else
  const bool sent = false;
#endif
  if (!sent) ::kill(process_, SIGKILL);
  // A process that hangs in the driver cannot be ended by anybody; whoever comes later is not kept by it.
  const deadline until = deadline::in_ms(200);
  while (reap(false) == -2 && !until.passed()) ::nanosleep(&between_looks, nullptr);
  process_ = -1;
  handle_.reset();
}

}  // namespace xyl
