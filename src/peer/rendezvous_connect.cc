// SPDX-License-Identifier: BSD-3-Clause
#include "peer/rendezvous_connect.hpp"

#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "os/tcp_socket.hpp"

namespace xyl {
namespace {

constexpr std::int64_t head_start_ms = 50;    // of an address over the next
constexpr std::int64_t last_chance_ms = 900;  // from the first bad answer on
constexpr std::int64_t retry_ms = 20;

enum class state { waiting, connecting, connected, proving, failed };

struct attempt {
  network_address address;
  state at = state::waiting;
  deadline begins;
  private_fd socket;
  rendezvous_greeting greeting;
  rendezvous_hello hello;
  rendezvous_answer answer;
  std::size_t bytes = 0;  // of the message that is coming
  std::string why;        // it failed last
};

// Where to try, in which order: loopback only, but then first, on the machine that made the id.
std::vector<attempt> attempts_for(const rendezvous_id& id, bool same_machine) {
  std::vector<network_address> order;
  for (const network_address& one : id.addresses)
    if (!one.is_loopback()) order.push_back(one);
  auto at = order.begin();
  for (const network_address& one : id.addresses)
    if (one.is_loopback() && same_machine) at = order.insert(at, one) + 1;
  std::vector<attempt> all(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    all[i].address = order[i];
    all[i].begins = deadline::in_ms(static_cast<std::int64_t>(i) * head_start_ms);
  }
  return all;
}

class race {
 public:
  race(const rendezvous_id& id, int rank, int ranks, std::int64_t timeout_ns, std::vector<attempt> attempts)
      : id_(id), rank_(rank), ranks_(ranks), timeout_ns_(timeout_ns), attempts_(std::move(attempts)) {}

  result run(deadline until, const interruption* stop, rendezvous_connection& out);

 private:
  void begin_due();
  void go_on(attempt& one);
  void read_greeting(attempt& one);
  void read_answer(attempt& one);
  void prove(attempt& one);
  // for_good: this address will not get better by trying again.
  void fail(attempt& one, bool for_good, const std::string& why);
  bool somebody(state at) const {
    return std::any_of(attempts_.begin(), attempts_.end(), [at](const attempt& a) { return a.at == at; });
  }
  result loss(const char* what) const;

  const rendezvous_id& id_;
  int rank_;
  int ranks_;
  std::int64_t timeout_ns_;
  std::vector<attempt> attempts_;
  deadline last_chance_;
  attempt* winner_ = nullptr;
  bool wrong_secret_ = false;
};

result race::run(deadline until, const interruption* stop, rendezvous_connection& out) {
  for (;;) {
    begin_due();
    const auto in_time = [](const attempt& a) { return a.at != state::failed; };
    if (std::none_of(attempts_.begin(), attempts_.end(), in_time)) return loss("none of its addresses is served");
    // Who has greeted serves an id, and whether it is this one will be known soon.
    if (last_chance_.passed() && !somebody(state::proving)) return loss("none of its addresses is served");
    if (until.passed())
      return error(xylTimeout, "%s", loss("nobody answered within XYLEM_CONNECT_TIMEOUT").text().c_str());
    std::vector<pollfd> polled;
    std::vector<attempt*> whose;
    int patience = std::min(until.left_ms() < 0 ? 1000 : until.left_ms(), 1000);
    for (attempt& one : attempts_) {
      if (one.at == state::waiting) patience = std::min(patience, one.begins.left_ms());
      // One that is connected but may not speak yet is looked at again when the one that speaks has failed.
      if (!one.socket || (one.at == state::connected && somebody(state::proving))) continue;
      polled.push_back({one.socket.get(), static_cast<short>(one.at == state::connecting ? POLLOUT : POLLIN), 0});
      whose.push_back(&one);
    }
    if (last_chance_.left_ms() >= 0) patience = std::min(patience, last_chance_.left_ms());
    if (stop) polled.push_back({stop->fd(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), patience);
    if (stop && stop->requested()) return error(xylRemoteError, "rank %d: initialisation was aborted", rank_);
    for (std::size_t i = 0; i < whose.size(); ++i)
      if (polled[i].revents) go_on(*whose[i]);
    if (winner_) {
      out.socket = std::move(winner_->socket);
      out.greeting = winner_->greeting;
      out.hello = winner_->hello;
      return {};
    }
  }
}

void race::begin_due() {
  // Where one has failed, the next need not wait for its turn.
  const bool under_way = somebody(state::connecting) || somebody(state::connected) || somebody(state::proving);
  bool forced = !under_way;
  for (attempt& one : attempts_) {
    if (one.at != state::waiting) continue;
    const bool first_time = one.why.empty();
    if (!one.begins.passed() && !(forced && first_time)) continue;
    forced = false;
    one.bytes = 0;
    if (result begun = begin_connect(one.address, one.socket); begun.ok())
      one.at = state::connecting;
    else
      fail(one, true, begun.text());
  }
}

void race::go_on(attempt& one) {
  if (one.at == state::connecting) {
    if (result outcome = connect_outcome(one.socket.get()); !outcome.ok())
      return fail(one, true, one.address.text() + ": " + outcome.text());
    one.at = state::connected;
  }
  if (one.at == state::connected) read_greeting(one);
  if (one.at == state::proving) read_answer(one);
}

void race::read_greeting(attempt& one) {
  if (somebody(state::proving)) return;
  bool end = false;
  auto* const at = reinterpret_cast<std::uint8_t*>(&one.greeting) + one.bytes;
  one.bytes += receive_some(one.socket.get(), at, sizeof one.greeting - one.bytes, end);
  if (one.bytes >= sizeof one.greeting.magic && !one.greeting.plausible())
    return fail(one, true, one.address.text() + ": something else than Xylem answers there");
  if (one.bytes == sizeof one.greeting) return prove(one);
  // A server that is flooded drops connections that are new to it.
  if (end) fail(one, false, one.address.text() + ": the connection was closed");
}

void race::prove(attempt& one) {
  if (one.greeting.version != rendezvous_version)
    return fail(one, true,
                one.address.text() + ": another version of Xylem answers there; all ranks need the same library");
  if (result made = rendezvous_hello::make(id_.secret, one.greeting, rank_, ranks_, timeout_ns_, one.hello);
      !made.ok())
    return fail(one, true, made.text());
  bool end = false;
  // A fresh socket has room for it.
  if (send_some(one.socket.get(), &one.hello, sizeof one.hello, end) != sizeof one.hello)
    return fail(one, false, one.address.text() + ": the connection was closed");
  one.at = state::proving;
  one.bytes = 0;
}

void race::read_answer(attempt& one) {
  bool end = false;
  auto* const at = reinterpret_cast<std::uint8_t*>(&one.answer) + one.bytes;
  one.bytes += receive_some(one.socket.get(), at, sizeof one.answer - one.bytes, end);
  if (one.bytes < sizeof one.answer) {
    if (end) fail(one, false, one.address.text() + ": the connection was closed");
    return;
  }
  if (one.answer.proven(id_.secret, one.greeting, one.hello)) {
    winner_ = &one;
  } else if (one.answer.plausible() && one.answer.verdict == rendezvous_answer::wrong_secret) {
    wrong_secret_ = true;
    fail(one, true, one.address.text() + ": another unique id is served there");
  } else {
    fail(one, true, one.address.text() + ": something else than Xylem answers there");
  }
}

void race::fail(attempt& one, bool for_good, const std::string& why) {
  one.why = why;
  one.socket.reset();
  one.at = for_good ? state::failed : state::waiting;
  one.begins = deadline::in_ms(retry_ms);
  if (last_chance_.left_ms() < 0) last_chance_ = deadline::in_ms(last_chance_ms);
}

result race::loss(const char* what) const {
  std::string all;
  for (const attempt& one : attempts_)
    all += (all.empty() ? "" : "; ") + (one.why.empty() ? one.address.text() + ": no answer" : one.why);
  return error(
      wrong_secret_ ? xylInvalidUsage : xylRemoteError,
      "rank %d cannot use the unique id: %s (%s). Process %d, which made the id, has ended, or all ranks of "
      "that id have come before, or no network leads there: every communicator needs an id of its own",
      rank_, what, all.c_str(), static_cast<int>(id_.process));
}

}  // namespace

result connect_to_id(const rendezvous_id& id, int rank, int ranks, std::int64_t timeout_ns, deadline until,
                     const interruption* stop, rendezvous_connection& out) {
  std::uint64_t here = 0;
  XYL_TRY(machine_number(here));
  std::vector<attempt> attempts = attempts_for(id, here == id.machine);
  if (attempts.empty())
    return error(xylRemoteError,
                 "rank %d is on another machine than the process that made the unique id, and the id has only "
                 "loopback addresses (XYLEM_SOCKET_IFNAME chooses)",
                 rank);
  return race(id, rank, ranks, timeout_ns, std::move(attempts)).run(until, stop, out);
}

}  // namespace xyl
