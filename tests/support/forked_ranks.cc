// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/forked_ranks.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "base/clock.hpp"

#ifdef __SANITIZE_THREAD__
// A report ends the process at once, so that it is never lost in a child; an end without one is not delayed, as the
// ends of ranks are what others wait for.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1:atexit_sleep_ms=0"; }
#endif

namespace xyl::test {

meeting::meeting(int ranks, std::size_t most_bytes) : ranks_(ranks), most_bytes_(most_bytes) {
  mapped_ = 4096 + most_bytes * static_cast<std::size_t>(ranks);
  void* at = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    std::perror("mmap");
    std::abort();
  }
  shared_ = new (at) shared{};
  data_ = static_cast<std::byte*>(at) + 4096;
}

meeting::~meeting() { ::munmap(shared_, mapped_); }

bool meeting::wait() {
  // acq_rel and acquire: what each did before the barrier is visible to all after it.
  const std::uint32_t round = shared_->round.load(std::memory_order_acquire);
  if (shared_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<std::uint32_t>(ranks_)) {
    shared_->arrived.store(0, std::memory_order_release);
    shared_->round.store(round + 1, std::memory_order_release);
  }
  const auto met = [&] { return shared_->round.load(std::memory_order_acquire) != round; };
  eventually([&] { return met() || shared_->broken; }, 30'000);
  // If the last to come was another process, ThreadSanitizer has not seen what orders the threads of this one: show
  // it.
  static_cast<void>(shared_->arrived.load(std::memory_order_acquire));
  return met();
}

void meeting::break_up() { shared_->broken = true; }

std::function<int(const void*, void*, std::size_t)> meeting::allgather(int rank) {
  return [this, rank](const void* mine, void* all, std::size_t bytes) {
    if (bytes > most_bytes_ || shared_->broken) return -1;
    std::memcpy(data_ + static_cast<std::size_t>(rank) * bytes, mine, bytes);
    if (!wait()) return -1;
    std::memcpy(all, data_, static_cast<std::size_t>(ranks_) * bytes);
    // Nobody overwrites the data for the next exchange before all have read this one.
    return wait() ? 0 : -1;
  };
}

std::string process_end::text() const {
  if (stuck) return "stuck";
  return signal ? std::string("signal ") + std::to_string(signal) : "exit " + std::to_string(code);
}

std::vector<process_end> forked_processes(int count, const std::function<void(int)>& body, int limit_ms) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // Gone before the line above? A parent in another process namespace shows as 0.
      if (::getppid() != parent && ::getppid() != 0) ::_exit(1);
      body(i);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<process_end> ends(children.size());
  std::vector<bool> over(children.size(), false);
  const auto collect = [&](int flags) {
    bool all = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      if (!over[i] && (children[i] < 0 || ::waitpid(children[i], &status, flags) == children[i])) {
        over[i] = true;
        if (children[i] < 0) continue;
        if (WIFEXITED(status)) ends[i].code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) ends[i].signal = WTERMSIG(status);
      }
      all = all && over[i];
    }
    return all;
  };
  if (eventually([&] { return collect(WNOHANG); }, limit_ms)) return ends;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (over[i]) continue;
    ends[i].stuck = true;
    ::kill(children[i], SIGKILL);
  }
  collect(0);
  return ends;
}

std::vector<process_end> forked_ranks(int ranks, const std::function<void(int, meeting&)>& body, int limit_ms) {
  meeting all(ranks);
  return forked_processes(
      ranks, [&](int rank) { body(rank, all); }, limit_ms);
}

int open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  int count = -1;  // the folder itself
  while (folder && ::readdir(folder.get())) ++count;
  return count;
}

bool eventually(const std::function<bool()>& done, int limit_ms) {
  const deadline limit = deadline::in_ms(limit_ms);
  while (!done()) {
    if (limit.passed()) return done();
    ::usleep(200);
  }
  return true;
}

}  // namespace xyl::test
