// SPDX-License-Identifier: BSD-3-Clause
#include "peer/service.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "os/local_socket.hpp"
#include "peer/turns.hpp"

namespace xyl {
namespace {

constexpr std::int64_t stranger_patience_ms = 1000;
constexpr std::size_t most_strangers = 64;
constexpr std::int64_t rest_ms = 50;  // after a lack of descriptors or memory

// The process's service, and which process that is (0: none). The number is read before the lock is taken, because
// in a forked child the lock may be held for ever by a thread that does not exist there.
std::mutex instance_guard;
std::weak_ptr<service> instance;
std::atomic<pid_t> instance_process{0};

int sooner(int a, int b) {
  if (a < 0) return b;
  if (b < 0) return a;
  return std::min(a, b);
}

}  // namespace

result service::allowed() {
  // relaxed: a process compares with what it wrote itself, or with what its memory held when it was forked.
  const pid_t owner = instance_process.load(std::memory_order_relaxed);
  if (owner != 0 && owner != ::getpid())
    return error(xylInvalidUsage,
                 "process %d was forked from process %d while that had communicators: a forked process cannot use "
                 "Xylem before it calls exec",
                 static_cast<int>(::getpid()), static_cast<int>(owner));
  return {};
}

result service::acquire(std::shared_ptr<service>& out) {
  XYL_TRY(allowed());
  instance_process.store(::getpid(), std::memory_order_relaxed);
  // Made before the lock is taken, and so destroyed after it, wherever this ends: the destructor takes the lock.
  std::shared_ptr<service> made(new service);
  const std::lock_guard lock(instance_guard);
  out = instance.lock();
  if (out) return {};
  XYL_TRY(made->start());
  // Again, since the last user of the one before may have cleared it since.
  instance_process.store(::getpid(), std::memory_order_relaxed);
  instance = made;
  out = std::move(made);
  return {};
}

result service::start() {
  bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_) return system_error("cannot create an event descriptor");
  XYL_TRY(listen_local(listener_, name_));
  // The thread inherits the mask: the application's signals are none of its business.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = ::pthread_create(
      &thread_, nullptr,
      [](void* self) -> void* {
        static_cast<service*>(self)->run();
        return nullptr;
      },
      this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    errno = failed;
    return system_error("cannot start the service thread");
  }
  running_ = true;
  ::pthread_setname_np(thread_, "xylem-service");
  return {};
}

service::~service() {
  if (running_) {
    {
      const std::lock_guard lock(guard_);
      stopping_ = true;
    }
    wake();
    ::pthread_join(thread_, nullptr);
  }
  const std::lock_guard lock(instance_guard);
  if (instance.expired()) instance_process.store(0, std::memory_order_relaxed);
}

void service::wake() const {
  const std::uint64_t one = 1;
  // Fails only if the counter is full, and then it is readable anyway.
  [[maybe_unused]] const ssize_t n = ::write(bell_.get(), &one, sizeof one);
}

void service::add(service_client* client) {
  const std::lock_guard lock(guard_);
  clients_.push_back(client);
}

void service::remove(service_client* client) {
  {
    const std::lock_guard lock(guard_);
    std::erase(clients_, client);
    std::erase_if(watched_, [client](watched& one) {
      if (one.client != client) return false;
      // close() alone would come to nothing while poll() or a forked child holds the socket.
      if (one.what == role::peer) ::shutdown(one.fd.get(), SHUT_RDWR);
      return true;
    });
  }
  wake();
}

void service::watch_socket(service_client* client, int peer, unique_fd socket) {
  {
    const std::lock_guard lock(guard_);
    add_watched(role::peer, std::move(socket), client, peer, {});
  }
  wake();
}

void service::watch_process(service_client* client, int peer, unique_fd process) {
  {
    const std::lock_guard lock(guard_);
    add_watched(role::process, std::move(process), client, peer, {});
  }
  wake();
}

void service::add_watched(role what, unique_fd fd, service_client* client, int peer, deadline patience) {
  watched_.push_back({++last_id_, what, std::move(fd), client, peer, patience});
}

void service::run() {
  take_turns(rest_ms, [this] { return turn(); });
}

// One wait and what came of it; false when it is time to stop. Descriptors are looked up again by number after the
// wait, since others may have closed them, and opened new ones, meanwhile.
bool service::turn() {
  std::vector<pollfd> polled;
  std::vector<std::uint64_t> ids;
  int patience = -1;
  {
    const std::lock_guard lock(guard_);
    if (stopping_) return false;
    drop_strangers();
    polled.push_back({bell_.get(), POLLIN, 0});
    const bool resting = !listener_rests_.passed();
    polled.push_back({resting ? -1 : listener_.get(), POLLIN, 0});
    if (resting) patience = listener_rests_.left_ms();
    for (const watched& one : watched_) {
      polled.push_back({one.fd.get(), POLLIN, 0});
      ids.push_back(one.id);
      patience = sooner(patience, one.patience.left_ms());
    }
  }
  if (const int ready = ::poll(polled.data(), polled.size(), patience); ready <= 0) {
    // The program has since limited itself to fewer descriptors than these: until it allows more, nothing can be asked
    // about them, but not all the time.
    if (ready < 0 && errno == EINVAL) ::usleep(10'000);
    return true;
  }
  if (polled[0].revents) {
    std::uint64_t rings;
    [[maybe_unused]] const ssize_t n = ::read(bell_.get(), &rings, sizeof rings);
  }
  const std::lock_guard lock(guard_);
  if (stopping_) return false;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (polled[i + 2].revents) handle(ids[i]);
  if (polled[1].revents) let_in();
  return true;
}

void service::drop_strangers() {
  std::erase_if(watched_, [](const watched& one) { return one.what == role::stranger && one.patience.passed(); });
}

void service::let_in() {
  unique_fd fd;
  if (!accept_local(listener_.get(), fd).ok()) {
    // The connection stays in the queue, and the listener readable: come back when there may be descriptors again.
    listener_rests_ = deadline::in_ms(rest_ms);
    return;
  }
  if (!fd) return;
  const auto is_stranger = [](const watched& one) { return one.what == role::stranger; };
  // Who proves itself at once, as ranks do, is never the oldest of a full house.
  if (static_cast<std::size_t>(std::count_if(watched_.begin(), watched_.end(), is_stranger)) >= most_strangers)
    watched_.erase(std::find_if(watched_.begin(), watched_.end(), is_stranger));
  add_watched(role::stranger, std::move(fd), nullptr, -1, deadline::in_ms(stranger_patience_ms));
  handle(last_id_);
}

void service::handle(std::uint64_t id) {
  const auto found = std::find_if(watched_.begin(), watched_.end(), [id](const watched& w) { return w.id == id; });
  if (found == watched_.end()) return;
  switch (found->what) {
    case role::stranger:
      if (!greet(*found)) watched_.erase(found);
      break;
    case role::peer:
      if (!listen_to(*found)) end_of(found->client, found->peer);
      break;
    case role::process:
      end_of(found->client, found->peer);
      break;
  }
}

bool service::greet(watched& one) {
  message hello;
  std::size_t length = 0;
  unique_fd passed;
  const result came = receive_message(one.fd.get(), &hello, sizeof hello, length, passed, deadline::in_ns(0));
  if (came.code() == xylTimeout) return true;
  if (!came.ok() || length != sizeof hello) return false;
  for (service_client* client : clients_) {
    message answer;
    int memory = -1;
    if (!client->welcome(hello, answer, memory)) continue;
    one.what = role::peer;
    one.client = client;
    one.peer = hello.from;
    one.patience = {};
    // A fresh socket has room for it; if not, the connection has ended for the client, too.
    if (!send_message(one.fd.get(), &answer, sizeof answer, memory, deadline::in_ns(0)).ok())
      end_of(client, hello.from);
    return true;
  }
  return false;
}

bool service::listen_to(watched& one) {
  message m;
  std::size_t length = 0;
  unique_fd passed;
  const result came = receive_message(one.fd.get(), &m, sizeof m, length, passed, deadline::in_ns(0));
  if (came.code() == xylTimeout) return true;
  if (!came.ok() && length == sizeof m) {
    // This process's fault. The connection stays: its end would look like a death to the peer.
    one.client->untaken(one.peer, came.text());
    return true;
  }
  return came.ok() && length == sizeof m && one.client->received(one.peer, m, std::move(passed));
}

void service::end_of(service_client* client, int peer) {
  std::erase_if(watched_, [&](const watched& one) { return one.client == client && one.peer == peer; });
  client->ended(peer);
}

}  // namespace xyl
