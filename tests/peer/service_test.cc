// SPDX-License-Identifier: BSD-3-Clause
#include "peer/service.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>

#include "os/local_socket.hpp"
#include "os/machine.hpp"
#include "tests/support/forked_ranks.hpp"

namespace xyl {
namespace {

// Rank 0, which lets in rank 1.
class client : public service_client {
 public:
  client() { EXPECT_TRUE(fill_random(secret.data(), secret.size()).ok()); }

  bool welcome(const message& hello, message& answer, int& fd) override {
    if (!hello.is(message_kind::hello, 1, 0, secret)) return false;
    answer = message::make(message_kind::answer, 0, 1, secret);
    fd = memory.get();
    return true;
  }
  bool received(int peer, const message& m, unique_fd fd) override {
    if (!m.is(message_kind::memory, peer, 0, secret) || !fd) return false;
    ++memories;
    return true;
  }
  void untaken(int peer, const std::string&) override { untaken_from = peer; }
  void ended(int peer) noexcept override { ended_peer = peer; }

  secret_bytes secret{};
  unique_fd memory{::memfd_create("test", MFD_CLOEXEC)};
  std::atomic<int> memories{0};
  std::atomic<int> untaken_from{-1};
  std::atomic<int> ended_peer{-1};
};

// Whether the other side has closed the connection, within the limit.
bool dropped(const unique_fd& socket, int limit_ms = 10'000) {
  pollfd one{socket.get(), POLLIN, 0};
  return ::poll(&one, 1, limit_ms) == 1 && (one.revents & POLLHUP);
}

// "SigBlk:\t..." of the thread of that name; "" if there is none.
std::string blocked_signals(const std::string& thread) {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(::opendir("/proc/self/task"), ::closedir);
  while (const dirent* task = ::readdir(tasks.get())) {
    const std::string folder = std::string("/proc/self/task/") + task->d_name;
    std::string name, line;
    std::getline(std::ifstream(folder + "/comm") >> std::ws, name);
    if (name != thread) continue;
    std::ifstream status(folder + "/status");
    while (std::getline(status, line))
      if (line.rfind("SigBlk:", 0) == 0) return line.substr(8);
  }
  return "";
}

TEST(service, one_per_process_and_gone_with_its_last_user) {
  const int before = test::open_descriptors();
  std::shared_ptr<service> first, second;
  ASSERT_TRUE(service::acquire(first).ok());
  ASSERT_TRUE(service::acquire(second).ok());
  EXPECT_EQ(first, second);
  const std::string name = first->socket_name();
  first.reset();
  unique_fd socket;
  EXPECT_TRUE(connect_local(name, {}, socket).ok());
  second.reset();
  EXPECT_EQ(connect_local(name, {}, socket).code(), xylSystemError);
  EXPECT_TRUE(dropped(socket));
  socket.reset();
  EXPECT_EQ(test::open_descriptors(), before);
  EXPECT_EQ(blocked_signals("xylem-service"), "");
}

TEST(service, blocks_all_signals_in_its_thread_only) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  // Until it answers, the thread may not have begun, and all new threads begin with everything blocked.
  unique_fd socket;
  ASSERT_TRUE(connect_local(running->socket_name(), {}, socket).ok());
  ASSERT_TRUE(send_message(socket.get(), "x", 1, -1, {}).ok());
  ASSERT_TRUE(dropped(socket));
  const std::string theirs = blocked_signals("xylem-service");
  ASSERT_EQ(theirs.size(), 16u);
  // SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGPIPE: bit (number - 1).
  const unsigned long long mask = std::stoull(theirs, nullptr, 16);
  for (int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGPIPE, SIGALRM}) EXPECT_NE(mask >> (signal - 1) & 1, 0u);
}

TEST(service, lets_in_who_knows_the_secret_and_sees_it_end) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  client rank0;
  running->add(&rank0);
  unique_fd socket, memory;
  ASSERT_TRUE(shake_hands(running->socket_name().c_str(), 1, 0, rank0.secret, rank0.memory.get(),
                          deadline::in_ms(10'000), socket, memory)
                  .ok());
  EXPECT_TRUE(memory);
  EXPECT_TRUE(test::eventually([&] { return rank0.memories == 1; }, 10'000));
  EXPECT_EQ(rank0.ended_peer, -1);
  socket.reset();
  EXPECT_TRUE(test::eventually([&] { return rank0.ended_peer == 1; }, 10'000));
  running->remove(&rank0);
}

TEST(service, hangs_up_on_the_peers_of_a_client_that_leaves) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  client rank0;
  running->add(&rank0);
  unique_fd socket, memory;
  ASSERT_TRUE(shake_hands(running->socket_name().c_str(), 1, 0, rank0.secret, rank0.memory.get(),
                          deadline::in_ms(10'000), socket, memory)
                  .ok());
  // A forked child has copies of the sockets, which keep them open.
  const pid_t child = ::fork();
  if (child == 0) {
    socket.reset();
    ::alarm(60);
    for (;;) ::pause();
  }
  running->remove(&rank0);
  EXPECT_TRUE(dropped(socket));
  EXPECT_EQ(rank0.ended_peer, -1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(service, drops_wrong_secrets_and_noise_at_once) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  client rank0;
  running->add(&rank0);
  message wrong = message::make(message_kind::hello, 1, 0, rank0.secret);
  wrong.proof[15] ^= 1;
  message answer = message::make(message_kind::answer, 1, 0, rank0.secret);
  message memory = message::make(message_kind::memory, 1, 0, rank0.secret);
  message far = message::make(message_kind::hello, 1 << 30, 0, rank0.secret);
  std::vector<char> noise(sizeof(message)), large(1 << 15);
  ASSERT_TRUE(fill_random(noise.data(), noise.size()).ok());
  const auto refused = [&](const void* data, std::size_t bytes) {
    unique_fd socket;
    EXPECT_TRUE(connect_local(running->socket_name(), {}, socket).ok());
    EXPECT_TRUE(send_message(socket.get(), data, bytes, rank0.memory.get(), {}).ok());
    return dropped(socket);
  };
  EXPECT_TRUE(refused(&wrong, sizeof wrong));
  EXPECT_TRUE(refused(&answer, sizeof answer));
  EXPECT_TRUE(refused(&memory, sizeof memory));
  EXPECT_TRUE(refused(&far, sizeof far));
  EXPECT_TRUE(refused(noise.data(), noise.size()));
  EXPECT_TRUE(refused(noise.data(), 1));
  EXPECT_TRUE(refused(noise.data(), 0));
  EXPECT_TRUE(refused(large.data(), large.size()));
  EXPECT_EQ(rank0.memories, 0);
  EXPECT_EQ(rank0.ended_peer, -1);
  running->remove(&rank0);
}

TEST(service, a_flood_of_silent_clients_shuts_nobody_out) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  client rank0;
  running->add(&rank0);
  const int before = test::open_descriptors();
  std::vector<unique_fd> silent(300);
  for (unique_fd& one : silent) ASSERT_TRUE(connect_local(running->socket_name(), {}, one).ok());
  unique_fd socket, memory;
  EXPECT_TRUE(shake_hands(running->socket_name().c_str(), 1, 0, rank0.secret, rank0.memory.get(),
                          deadline::in_ms(10'000), socket, memory)
                  .ok());
  EXPECT_TRUE(memory);
  // Ours, and at most the cap on their side (with what that side has just accepted).
  EXPECT_LT(test::open_descriptors(), before + 300 + 64 + 10);
  // The first are pushed out, the last run out of time.
  for (const unique_fd& one : silent) EXPECT_TRUE(dropped(one));
  EXPECT_EQ(rank0.ended_peer, -1);
  running->remove(&rank0);
}

TEST(service, goes_on_when_descriptors_run_out) {
  const auto ends = test::forked_processes(1, [](int) {
    std::shared_ptr<service> running;
    ASSERT_TRUE(service::acquire(running).ok());
    client rank0;
    running->add(&rank0);
    const rlimit few{200, 200};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::vector<unique_fd> all;
    for (;;) {
      unique_fd one(::dup(0));
      if (!one) break;
      all.push_back(std::move(one));
    }
    ASSERT_FALSE(all.empty());
    all.pop_back();  // for our end of the connection; there is none for theirs
    unique_fd starved;
    ASSERT_TRUE(connect_local(running->socket_name(), {}, starved).ok());
    ::usleep(200'000);
    all.clear();
    unique_fd good, memory;
    EXPECT_TRUE(shake_hands(running->socket_name().c_str(), 1, 0, rank0.secret, rank0.memory.get(),
                            deadline::in_ms(10'000), good, memory)
                    .ok());
    running->remove(&rank0);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
}

// Its peers would see the end of the connection, and take it for a death.
TEST(service, keeps_a_peer_whose_memory_it_has_no_descriptor_for) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  client rank0;
  running->add(&rank0);
  unique_fd socket, came;
  ASSERT_TRUE(connect_local(running->socket_name(), {}, socket).ok());
  const message hello = message::make(message_kind::hello, 1, 0, rank0.secret);
  ASSERT_TRUE(send_message(socket.get(), &hello, sizeof hello, -1, {}).ok());
  message answer;
  std::size_t length = 0;
  ASSERT_TRUE(receive_message(socket.get(), &answer, sizeof answer, length, came, deadline::in_ms(10'000)).ok());
  // As many as are in use: a limit below those that the service watches would keep it from watching.
  rlimit whole, few;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole), 0);
  few = whole;
  few.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<unique_fd> all;
  for (unique_fd one(::dup(0)); one; one = unique_fd(::dup(0))) all.push_back(std::move(one));
  ASSERT_FALSE(all.empty());
  const message mine = message::make(message_kind::memory, 1, 0, rank0.secret);
  EXPECT_TRUE(send_message(socket.get(), &mine, sizeof mine, rank0.memory.get(), {}).ok());
  EXPECT_TRUE(test::eventually([&] { return rank0.untaken_from == 1; }, 10'000));
  all.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole), 0);
  EXPECT_EQ(rank0.memories, 0);
  EXPECT_EQ(rank0.ended_peer, -1);
  socket.reset();
  EXPECT_TRUE(test::eventually([&] { return rank0.ended_peer == 1; }, 10'000));
  running->remove(&rank0);
}

TEST(service, a_forked_process_is_refused) {
  std::shared_ptr<service> running;
  ASSERT_TRUE(service::acquire(running).ok());
  const auto ends = test::forked_processes(1, [&](int) {
    std::shared_ptr<service> mine;
    const result r = service::acquire(mine);
    EXPECT_EQ(r.code(), xylInvalidUsage);
    EXPECT_NE(r.text().find("forked"), std::string::npos) << r.text();
    EXPECT_EQ(mine, nullptr);
  });
  EXPECT_TRUE(ends[0].good()) << ends[0].text();
  running.reset();
  const auto later = test::forked_processes(1, [&](int) {
    std::shared_ptr<service> mine;
    EXPECT_TRUE(service::acquire(mine).ok()) << "the parent has no communicator any more";
  });
  EXPECT_TRUE(later[0].good()) << later[0].text();
}

}  // namespace
}  // namespace xyl
