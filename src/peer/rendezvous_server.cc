// SPDX-License-Identifier: BSD-3-Clause
#include "peer/rendezvous_server.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "os/tcp_socket.hpp"
#include "peer/introduction.hpp"
#include "peer/turns.hpp"

namespace xyl {
namespace {

constexpr std::int64_t stranger_patience_ms = 5000;
constexpr std::size_t most_strangers = 64;
constexpr std::int64_t rest_ms = 50;  // after a lack of descriptors or memory
constexpr std::int64_t longest_timeout_ns = 1'000'000'000'000'000;
// How long ranks that come late can still learn why the others have failed.
constexpr std::int64_t most_telling_ns = 30'000'000'000;

std::atomic<int> served{0};

int sooner(int a, int b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

}  // namespace

int rendezvous_server::running() { return served.load(std::memory_order_acquire); }

result rendezvous_server::start(std::vector<network_address> addresses, std::int64_t warning_ns,
                                rendezvous_id& out) {
  std::unique_ptr<rendezvous_server> made(new rendezvous_server);
  XYL_TRY(rendezvous_id::make(made->id_));
  made->warning_ns_ = warning_ns;
  made->id_.addresses = std::move(addresses);
  made->id_.fit();
  result why;
  for (auto one = made->id_.addresses.begin(); one != made->id_.addresses.end();) {
    private_fd listener;
    // An address that is still being set up, for one, cannot be bound to.
    if (result tried = listen_tcp(*one, listener); tried.ok()) {
      made->listeners_.push_back(std::move(listener));
      ++one;
    } else {
      why = std::move(tried);
      one = made->id_.addresses.erase(one);
    }
  }
  if (made->listeners_.empty())
    return why.ok() ? error(xylSystemError, "this machine has no address to listen on") : std::move(why);
  rendezvous_id told = made->id_;
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  pthread_attr_t detached;
  ::pthread_attr_init(&detached);
  ::pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  // release, with the acquire in running(): whoever sees that a server has ended also sees its sockets closed.
  served.fetch_add(1, std::memory_order_release);
  const int failed = ::pthread_create(
      &thread, &detached,
      [](void* self) -> void* {
        ::pthread_setname_np(::pthread_self(), "xylem-id");
        {
          const std::unique_ptr<rendezvous_server> server(static_cast<rendezvous_server*>(self));
          server->run();
        }
        served.fetch_sub(1, std::memory_order_release);
        return nullptr;
      },
      made.get());
  ::pthread_attr_destroy(&detached);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) {
    served.fetch_sub(1, std::memory_order_release);
    errno = failed;
    return system_error("cannot start the thread that serves a unique id");
  }
  static_cast<void>(made.release());  // its own from now on
  out = std::move(told);
  return {};
}

void rendezvous_server::run() {
  take_turns(rest_ms, [this] { return turn(); });
}

// One wait and what came of it; false when all is done.
bool rendezvous_server::turn() {
  forget_ended();
  drop_late();
  warn_of_missing();
  if (over()) return false;
  std::vector<pollfd> polled;
  const bool resting = !listeners_rest_.passed();
  for (const private_fd& l : listeners_) polled.push_back({resting ? -1 : l.get(), POLLIN, 0});
  for (const auto& one : guests_) {
    const bool sends = one->channel && one->channel->has_queued();
    polled.push_back({one->socket.get(), static_cast<short>(POLLIN | (sends ? POLLOUT : 0)), 0});
  }
  if (::poll(polled.data(), polled.size(),
             resting ? sooner(patience_ms(), listeners_rest_.left_ms()) : patience_ms()) <= 0)
    return true;
  const std::size_t listening = listeners_.size();
  for (std::size_t i = listening; i < polled.size(); ++i)
    if (polled[i].revents) hear(*guests_[i - listening]);
  // The last rank to come closes the listeners.
  for (std::size_t i = 0; i < listening && i < listeners_.size(); ++i)
    if (polled[i].revents) let_in(listeners_[i].get());
  return true;
}

int rendezvous_server::patience_ms() const {
  int patience = -1;
  for (const auto& one : guests_)
    if (!one->channel) patience = sooner(patience, one->patience.left_ms());
  if (!failure_.ok()) return sooner(patience, tells_until_.left_ms());
  const std::int64_t now = now_ns();
  const auto ms_until = [now](std::int64_t from, std::int64_t ns) {
    return static_cast<int>(std::clamp<std::int64_t>((ns - (now - from)) / 1'000'000 + 1, 0, 1'000'000));
  };
  if (complete_) return gathering_ ? sooner(patience, ms_until(gathering_since_ns_, exchange_limit_ns_)) : patience;
  if (ranks_ == 0) return patience;
  patience = sooner(patience, ms_until(began_ns_, least_timeout_ns_));
  return warned_ || warning_ns_ == 0 ? patience : sooner(patience, ms_until(began_ns_, warning_ns_));
}

void rendezvous_server::let_in(int listener) {
  private_fd socket;
  not_let_in_ = accept_tcp(listener, socket);
  if (!not_let_in_.ok()) {
    // The connection stays in the queue, and the listener readable: come back when there may be descriptors again.
    listeners_rest_ = deadline::in_ms(rest_ms);
    return;
  }
  if (!socket) return;
  const auto is_stranger = [](const auto& one) { return !one->channel && !one->ended; };
  // Who proves itself at once, as ranks do, is never the oldest of a full house.
  if (static_cast<std::size_t>(std::count_if(guests_.begin(), guests_.end(), is_stranger)) >= most_strangers)
    (*std::find_if(guests_.begin(), guests_.end(), is_stranger))->ended = true;
  auto one = std::make_unique<guest>();
  one->patience = deadline::in_ms(stranger_patience_ms);
  one->socket = std::move(socket);
  bool end = !rendezvous_greeting::make(one->greeting).ok();
  // A fresh socket has room for it.
  if (end || send_some(one->socket.get(), &one->greeting, sizeof one->greeting, end) != sizeof one->greeting)
    return;
  guests_.push_back(std::move(one));
}

void rendezvous_server::hear(guest& one) {
  if (one.ended) return;
  if (!one.channel) greet(one);
  if (!one.channel || one.ended) return;
  if (!one.channel->flush(one.socket.get())) return ended(one);
  for (;;) {
    rendezvous_channel::arrival what;
    frame_kind kind;
    std::vector<std::uint8_t> payload;
    const result came = one.channel->receive(one.socket.get(), what, kind, payload);
    if (!came.ok() || what == rendezvous_channel::arrival::end) return ended(one);
    if (what == rendezvous_channel::arrival::nothing) return;
    take(one, kind, std::move(payload));
  }
}

void rendezvous_server::greet(guest& one) {
  bool end = false;
  auto* const bytes = reinterpret_cast<std::uint8_t*>(&one.hello);
  one.hello_bytes +=
      receive_some(one.socket.get(), bytes + one.hello_bytes, sizeof one.hello - one.hello_bytes, end);
  // Something else is told by its first bytes, so that a talkative stranger does not stay for its patience.
  const bool other = one.hello_bytes >= sizeof one.hello.magic && !one.hello.plausible();
  if (one.hello_bytes < sizeof one.hello) {
    one.ended = end || other;
    return;
  }
  const bool proven = one.hello.proven(id_.secret, one.greeting);
  const rendezvous_answer answer =
      proven ? rendezvous_answer::make(id_.secret, one.greeting, one.hello) : rendezvous_answer::refusal();
  if (one.hello.plausible() && send_some(one.socket.get(), &answer, sizeof answer, end) != sizeof answer)
    end = true;
  one.ended = !proven;
  if (one.ended) return;
  one.channel = std::make_unique<rendezvous_channel>(rendezvous_channel::side::host, id_.secret, one.greeting,
                                                     one.hello, rendezvous_part_bytes);
  welcome(one);
  // It came, and died before it was answered: the others have to know.
  if (end) ended(one);
}

// Its word is good from here on, but its numbers still have to fit.
void rendezvous_server::welcome(guest& one) {
  if (!failure_.ok()) return tell(one);
  const rendezvous_hello& h = one.hello;
  if (h.ranks < 1 || h.ranks > rendezvous_capacity || h.rank < 0 || h.rank >= h.ranks)
    return fail(error(xylInvalidUsage, "%s says it is one of %d ranks", name_of(one).c_str(), h.ranks));
  if (ranks_ == 0) {
    came_.resize(static_cast<std::size_t>(h.ranks));
    ranks_ = h.ranks;
    first_ = h.rank;
    began_ns_ = now_ns();
  }
  most_ranks_ = std::max(most_ranks_, h.ranks);
  if (h.ranks != ranks_)
    return fail(
        error(xylInvalidUsage,
              "%s was started as one of %d ranks, and %s, with the same unique id, as one of %d: all need the "
              "same number",
              name_of(one).c_str(), h.ranks, name_of(*rank(first_)).c_str(), ranks_));
  for (const auto& other : guests_)
    if (other.get() != &one && other->channel && !other->ended && other->hello.rank == h.rank)
      return fail(
          error(xylInvalidUsage,
                "rank %d came twice with the same unique id: from process %lld and from process %lld; every "
                "rank needs its own number",
                h.rank, static_cast<long long>(other->hello.process), static_cast<long long>(h.process)));
  came_[static_cast<std::size_t>(h.rank)] = true;
  const std::int64_t timeout = std::clamp<std::int64_t>(h.timeout_ns, 0, longest_timeout_ns);
  least_timeout_ns_ = std::min(least_timeout_ns_, now_ns() - began_ns_ + timeout);
  exchange_limit_ns_ = std::min(exchange_limit_ns_, timeout + rendezvous_work_ns);
  complete_ = ++arrived_ == ranks_;
  if (!complete_) return;
  // Those who came first may have brought their parts, and have waited for the others to come until now.
  gathering_since_ns_ = now_ns();
  stop_listening();
}

void rendezvous_server::take(guest& one, frame_kind kind, std::vector<std::uint8_t> payload) {
  if (!failure_.ok()) return;
  if (kind == frame_kind::done) {
    one.done = true;
    for (const auto& other : guests_)
      if (other->part) return fail(error(xylRemoteError, "%s left the initialisation", name_of(one).c_str()));
    return;
  }
  if (kind != frame_kind::data || one.part || one.done)
    return fail(error(xylInvalidUsage,
                      "%s does not follow the course of the initialisation: all ranks need the same "
                      "library",
                      name_of(one).c_str()));
  one.part = std::move(payload);
  if (!gathering_) gathering_since_ns_ = now_ns();
  gathering_ = true;
  finish_exchange();
}

void rendezvous_server::finish_exchange() {
  if (!complete_) return;
  std::vector<guest*> ordered(static_cast<std::size_t>(ranks_));
  for (const auto& one : guests_)
    if (one->channel && !one->ended) ordered[static_cast<std::size_t>(one->hello.rank)] = one.get();
  bool waiting = false;
  for (guest* one : ordered) {
    if (one == nullptr || one->done)
      return fail(error(xylRemoteError, "%s left the initialisation", one ? name_of(*one).c_str() : "a rank"));
    waiting = waiting || !one->part;
  }
  if (waiting) return;
  std::vector<std::uint8_t> all;
  for (guest* one : ordered) {
    if (one->part->size() != ordered[0]->part->size())
      return fail(
          error(xylInvalidUsage, "%s brought %zu bytes to an exchange, %s %zu: all ranks need the same library",
                name_of(*one).c_str(), one->part->size(), name_of(*ordered[0]).c_str(), ordered[0]->part->size()));
    all.insert(all.end(), one->part->begin(), one->part->end());
  }
  for (guest* one : ordered) one->part.reset();
  gathering_ = false;
  for (guest* one : ordered) {
    one->channel->queue(frame_kind::data, all);
    if (!one->channel->flush(one->socket.get())) ended(*one);
  }
}

void rendezvous_server::ended(guest& one) {
  one.ended = true;
  if (!one.channel || one.done || !failure_.ok()) return;
  fail(error(xylRemoteError, "%s ended during the initialisation", name_of(one).c_str()));
}

void rendezvous_server::fail(result why) {
  if (!failure_.ok()) return;
  failure_ = std::move(why);
  log_line(log_level::info, no_rank, "unique id: %s", failure_.text().c_str());
  tells_until_ =
      deadline::in_ns(std::min(most_telling_ns, std::max<std::int64_t>(least_timeout_ns_, 1'000'000'000)));
  for (const auto& one : guests_)
    if (one->channel && !one->ended && !one->done) tell(*one);
}

void rendezvous_server::tell(guest& one) {
  if (one.told) return;
  one.told = true;
  ++told_;
  const report words = report::of(failure_);
  one.channel->queue(frame_kind::failure, std::span(reinterpret_cast<const std::uint8_t*>(&words), sizeof words));
  if (!one.channel->flush(one.socket.get())) one.ended = true;
}

void rendezvous_server::forget_ended() {
  for (const auto& one : guests_)
    if (one->ended) shut(one->socket);
  std::erase_if(guests_, [](const auto& one) { return one->ended; });
}

std::string rendezvous_server::why_missing() const {
  if (not_let_in_.ok()) return {};
  return ", because process " + std::to_string(::getpid()) + ", which made the id, " + not_let_in_.text();
}

void rendezvous_server::drop_late() {
  std::erase_if(guests_, [](const auto& one) { return !one->channel && one->patience.passed(); });
  if (!failure_.ok() || ranks_ == 0) return;
  if (complete_) {
    if (!gathering_ || now_ns() - gathering_since_ns_ < exchange_limit_ns_) return;
    for (const auto& one : guests_)
      if (one->channel && !one->part)
        return fail(error(xylTimeout,
                          "%s did not go on with the initialisation within %.1f s (XYLEM_TIMEOUT and %.0f)",
                          name_of(*one).c_str(), static_cast<double>(exchange_limit_ns_) * 1e-9,
                          static_cast<double>(rendezvous_work_ns) * 1e-9));
    return;
  }
  if (now_ns() - began_ns_ < least_timeout_ns_) return;
  fail(error(xylTimeout, "%s of %d did not come within %.1f s (XYLEM_TIMEOUT)%s", missing().c_str(), ranks_,
             static_cast<double>(least_timeout_ns_) * 1e-9, why_missing().c_str()));
}

void rendezvous_server::warn_of_missing() {
  if (warned_ || warning_ns_ == 0 || ranks_ == 0 || complete_ || !failure_.ok()) return;
  if (now_ns() - began_ns_ < warning_ns_) return;
  warned_ = true;
  log_line(log_level::warn, no_rank,
           "unique id: %s of %d did not come within %.0f s of the first; giving up after %.0f s%s",
           missing().c_str(), ranks_, static_cast<double>(warning_ns_) * 1e-9,
           static_cast<double>(least_timeout_ns_) * 1e-9, why_missing().c_str());
}

void rendezvous_server::stop_listening() {
  for (private_fd& one : listeners_) shut(one);
  listeners_.clear();
  for (const auto& one : guests_)
    if (!one->channel) one->ended = true;
}

bool rendezvous_server::over() const {
  if (!failure_.ok()) {
    const bool all_gone =
        std::none_of(guests_.begin(), guests_.end(), [](const auto& g) { return g->channel != nullptr; });
    // Whoever was told closes its side. Who has not come yet can do so only before all had.
    return tells_until_.passed() || (all_gone && (complete_ || told_ >= most_ranks_));
  }
  return complete_ && guests_.empty();
}

std::string rendezvous_server::name_of(const guest& one) const {
  return xyl::name_of(one.hello.rank, one.hello.process);
}

std::string rendezvous_server::missing() const {
  std::string numbers;
  int count = 0;
  for (std::size_t r = 0; r < came_.size(); ++r) {
    if (came_[r]) continue;
    if (++count <= 8) numbers += (count > 1 ? ", " : "") + std::to_string(r);
  }
  if (count > 8) numbers += format_text(" and %d more", count - 8);
  return (count == 1 ? "rank " : "ranks ") + numbers;
}

rendezvous_server::guest* rendezvous_server::rank(int number) {
  for (const auto& one : guests_)
    if (one->channel && !one->ended && one->hello.rank == number) return one.get();
  return nullptr;
}

}  // namespace xyl
