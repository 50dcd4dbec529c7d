// SPDX-License-Identifier: BSD-3-Clause
#include "peer/peer_group.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/out_of_memory.hpp"
#include "os/machine.hpp"
#include "peer/poisoning.hpp"

namespace xyl {
namespace {

constexpr int soon_ms = 100;

std::uint32_t life_of(control_block& control) {
  // acquire: who finds a bit also finds everything its rank did before, such as its last stores to our workspace.
  return std::atomic_ref(control.identity.life).load(std::memory_order_acquire);
}

void add_life(control_block& control, std::uint32_t bits) {
  // release: see life_of. Several threads of the owner may do this: hence a read-modify-write.
  std::atomic_ref(control.identity.life).fetch_or(bits, std::memory_order_release);
}

}  // namespace

peer_group::peer_group(int rank, allgather_function allgather, const layout& map, const peer_ways& ways)
    : rank_(rank),
      map_(map),
      ways_(ways),
      allgather_(std::move(allgather)),
      introductions_(map.ranks),
      reports_(map.ranks),
      memory_(map.ranks),
      peers_(new peer_state[map.ranks]) {}

peer_group::~peer_group() {
  if (process_ != ::getpid()) {
    // A forked child. The service's lock may be held for ever here, the sockets are the parent's too, and the life
    // word is the parent's: whatever we hold of them stays until the child ends or calls exec.
    new std::shared_ptr<service>(std::move(service_));
    return;
  }
  // Before the sockets close: whoever sees their end then finds the reason.
  depart();
  if (service_) service_->remove(this);
}

result peer_group::create(int rank, allgather_function allgather, const layout& map,
                          std::unique_ptr<peer_group>& out, const peer_ways& ways) {
  const int ranks = static_cast<int>(map.ranks);
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return error(xylInvalidArgument, "rank %d of %d: ranks are numbered from 0", rank, ranks);
  std::unique_ptr<peer_group> group(new peer_group(rank, std::move(allgather), map, ways));
  result met = group->meet();
  if (met.ok()) {
    out = std::move(group);
  } else if (!group->all_live().ok()) {
    // Who has not mapped this rank's memory cannot know that it leaves, and would take it for the one that died.
    // Until then every rank sees the death that was first.
    ::usleep(soon_ms * 1000);
  }
  return met;
}

result peer_group::meet() {
  std::vector<std::uint8_t> reached(map_.ranks), reached_by_all(static_cast<std::size_t>(map_.ranks) * map_.ranks);

  // From here on every rank comes to every exchange, whatever has failed, so that nobody waits for it in vain.
  introduction mine{};
  const result prepared = or_out_of_memory([&] { return prepare(mine); });
  mine.state = report::of(prepared);
  XYL_TRY(exchange(&mine, introductions_.data(), sizeof mine));
  XYL_TRY(check_introductions(introductions_, rank_));
  // Connections begin after everyone has enrolled: a peer that is slow does not know yet whom to let in.
  XYL_TRY(agree(or_out_of_memory([&] { return enrol(); })));
  result connected = or_out_of_memory([&] { return connect(reached); });
  XYL_TRY(exchange(reached.data(), reached_by_all.data(), reached.size()));
  result mapped = connected.ok() ? or_out_of_memory([&] { return map_all(reached_by_all); }) : std::move(connected);
  XYL_TRY(agree(std::move(mapped)));
  listed_.remove();
  const std::lock_guard lock(guard_);
  memory_[rank_]->close_fd();
  return {};
}

result peer_group::exchange(const void* mine, void* all, std::size_t bytes) const {
  const caller_wait wait(*this, ways_.allgather);
  const int failed = allgather_(mine, all, bytes);
  if (failed == 0) return {};
  // Why it gave up, if it has asked; or what it would have been told.
  if (const result& why = wait.verdict(); !why.ok()) return result(why.code(), why.text());
  XYL_TRY(all_live());
  return error(xylRemoteError, "the caller's allgather of %zu bytes per rank returned %d on rank %d", bytes, failed,
               rank_);
}

// Of several the one that was seen first: others may have left because of it.
result peer_group::all_live() const {
  const auto ended = [&](int r) {
    return error(xylRemoteError, "%s ended during the initialisation", describe(r).c_str());
  };
  if (memory_[rank_]) {
    // acquire: see dead().
    const std::uint64_t word = std::atomic_ref(control(rank_).poisoned.word).load(std::memory_order_acquire);
    const int first = poison::culprit(word);
    if (poison::code(word) == xylRemoteError && first >= 0 && first < ranks() && dead(first)) return ended(first);
  }
  for (int r = 0; r < ranks(); ++r)
    if (dead(r)) return ended(r);
  return {};
}

result peer_group::agree(result mine) const {
  const report own = report::of(mine);
  result exchanged = exchange(&own, reports_.data(), sizeof own);
  if (!mine.ok()) return mine;
  XYL_TRY(std::move(exchanged));
  return verdict({}, reports_, introductions_);
}

result peer_group::prepare(introduction& mine) {
  XYL_TRY(introduction::make(rank_, map_, mine));
  sealed_memory own;
  XYL_TRY(sealed_memory::create(map_.bytes, own));
  mine.memory_fd = own.fd();
  std::memcpy(reinterpret_cast<control_block*>(own.data())->identity.nonce, mine.nonce, sizeof mine.nonce);
  memory_[rank_] = std::make_shared<sealed_memory>(std::move(own));
  if (ranks() == 1) return {};
  XYL_TRY(service::acquire(service_));
  std::strncpy(mine.socket, service_->socket_name().c_str(), sizeof mine.socket - 1);
  return {};
}

result peer_group::enrol() {
  secret_ = common_secret(introductions_);
  listed_.add(secret_, rank_, memory_[rank_]);
  if (!service_) return {};
  service_->add(this);
  for (int r = 0; r < ranks(); ++r)
    if (!same_process(r)) watch_process(r);
  return {};
}

// As early as its number is known: before its memory is opened, so that a nonce found through this number proves the
// watched process right; and before any wait for it.
void peer_group::watch_process(int peer) {
  const std::int64_t number = process_number(peer);
  if (number == 0) return;
  unique_fd process = open_process(number);
  if (process) {
    peers_[peer].watched = true;
    service_->watch_process(this, peer, std::move(process));
  } else if (errno == ESRCH) {
    ended(peer);
  }
}

// Each rank connects to the lower ranks of other processes.
result peer_group::connect(std::vector<std::uint8_t>& reached) {
  for (int r = 0; r < rank_; ++r)
    if (!same_process(r)) XYL_TRY(connect_to(r, reached[r]));
  return {};
}

result peer_group::connect_to(int peer, std::uint8_t& reached) {
  introduction& other = introductions_[peer];
  other.socket[sizeof other.socket - 1] = 0;
  if (!ways_.sockets) return {};
  unique_fd socket, memory;
  // What fails here has another way, whose error tells more if it fails as well.
  if (!shake_hands(other.socket, rank_, peer, secret_, memory_[rank_]->fd(), deadline::in_ms(ways_.handshake_ms),
                   socket, memory)
           .ok())
    return {};
  {
    const std::lock_guard lock(guard_);
    peers_[peer].connected = true;
    peers_[peer].memory = std::move(memory);
  }
  service_->watch_socket(this, peer, std::move(socket));
  reached = 1;
  return {};
}

result peer_group::map_all(const std::vector<std::uint8_t>& reached) {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    if (same_process(r)) {
      auto theirs = listed_workspace::find(secret_, r);
      {
        const std::lock_guard lock(guard_);
        memory_[r] = std::move(theirs);
      }
      if (!memory_[r]) return error(xylInternalError, "rank %d of this process is not listed", r);
    } else {
      const int connector = std::max(r, rank_), listener = std::min(r, rank_);
      XYL_TRY(map_remote(r, reached[static_cast<std::size_t>(connector) * map_.ranks + listener] != 0));
    }
  }
  return {};
}

result peer_group::map_remote(int peer, bool by_socket) {
  const introduction& other = introductions_[peer];
  unique_fd memory;
  if (by_socket) {
    XYL_TRY(memory_by_socket(peer, memory));
  } else {
    const result found = memory_by_proc(peer, memory);
    if (!found.ok() && ends(peer))
      return error(xylRemoteError, "%s ended during the initialisation", describe(peer).c_str());
    if (!found.ok())
      return error(
          xylSystemError,
          "ranks %d and %d cannot reach each other's memory: no connection to their local socket (are they in "
          "different network namespaces?), and %s",
          rank_, peer, found.text().c_str());
    if (!peers_[peer].watched)
      return error(xylSystemError,
                   "%s could not be watched: no local socket reaches it, and no pidfd can be opened",
                   describe(peer).c_str());
  }
  sealed_memory mapped;
  result adopted = sealed_memory::adopt(std::move(memory), map_.bytes, mapped);
  if (!adopted.ok())
    return error(adopted.code(), "workspace of %s: %s", describe(peer).c_str(), adopted.text().c_str());
  const control_block& control = *reinterpret_cast<const control_block*>(mapped.data());
  if (std::memcmp(control.identity.nonce, other.nonce, sizeof other.nonce) != 0)
    return error(xylSystemError, "what was reached as the workspace of %s is something else",
                 describe(peer).c_str());
  mapped.close_fd();
  auto shared = std::make_shared<sealed_memory>(std::move(mapped));
  {
    const std::lock_guard lock(guard_);
    memory_[peer] = std::move(shared);
  }
  return {};
}

// Whether a peer that cannot be reached is gone, or just about to be: its end is seen a moment later.
bool peer_group::ends(int peer) {
  std::unique_lock lock(guard_);
  return changed_.wait_for(lock, std::chrono::milliseconds(soon_ms), [&] { return dead(peer); });
}

// The connector has it already; the listener waits for what is on its way.
result peer_group::memory_by_socket(int peer, unique_fd& fd) {
  std::unique_lock lock(guard_);
  peer_state& other = peers_[peer];
  const bool came = changed_.wait_for(lock, std::chrono::milliseconds(ways_.handshake_ms),
                                      [&] { return other.memory || dead(peer); });
  if (other.memory) {
    fd = std::move(other.memory);
    return {};
  }
  return error(came ? xylRemoteError : xylTimeout, "%s did not hand over its workspace", describe(peer).c_str());
}

result peer_group::memory_by_proc(int peer, unique_fd& fd) const {
  const introduction& other = introductions_[peer];
  const introduction& own = introductions_[rank_];
  if (!ways_.proc) return error(xylSystemError, "the way through /proc is closed");
  if (own.process_space == 0 || own.process_space != other.process_space)
    return error(xylSystemError, "they are in different process namespaces");
  const std::string path =
      format_text("/proc/%lld/fd/%d", static_cast<long long>(other.process_number), other.memory_fd);
  fd.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return system_error("cannot open %s", path.c_str());
  return {};
}

bool peer_group::same_process(int rank) const {
  return introductions_[rank].process == introductions_[rank_].process;
}

std::int64_t peer_group::process_number(int rank) const {
  const introduction &other = introductions_[rank], &own = introductions_[rank_];
  return own.process_space != 0 && own.process_space == other.process_space ? other.process_number : 0;
}

bool peer_group::departed(int rank) const {
  return memory_[rank] != nullptr && (life_of(control(rank)) & life::departed) != 0;
}

// relaxed: the flag says all there is to know. It is set before the poison is, whose acquire load makes it visible.
bool peer_group::dead(int rank) const {
  if (peers_[rank].dead.load(std::memory_order_relaxed)) return true;
  // Another rank may have seen the end first, and said so in our control block (see ended).
  if (!memory_[rank_] || !memory_[rank]) return false;
  const std::uint64_t word = std::atomic_ref(control(rank_).poisoned.word).load(std::memory_order_acquire);
  return word == poison::pack(xylRemoteError, rank) && life_of(control(rank)) == 0;
}

std::string peer_group::describe(int rank) const {
  // Ranks that have not introduced themselves have a number only.
  if (introductions_[rank].process_number == 0) return format_text("rank %d", rank);
  std::string text = name_of(rank, introductions_[rank].process_number);
  const char* fate = nullptr;
  const bool mapped = memory_[rank] != nullptr;
  const std::uint32_t life = mapped ? life_of(control(rank)) : 0;
  if (life & life::aborted)
    fate = ", which aborted)";
  else if (dead(rank))
    fate = ", which is gone)";
  else if (life & life::departed)
    fate = ", which has left)";
  if (fate) text.replace(text.size() - 1, 1, fate);
  return text;
}

void peer_group::depart() {
  if (process_ == ::getpid() && memory_[rank_]) add_life(control(rank_), life::departed);
}

bool peer_group::needed() const {
  for (int r = 0; r < ranks(); ++r)
    if (r != rank_ && !departed(r) && !dead(r)) return true;
  return false;
}

void peer_group::abort(int code) {
  // A forked child has no say in its parent's communicator.
  if (process_ != ::getpid()) return;
  add_life(control(rank_), life::aborted);
  for (int r = 0; r < ranks(); ++r) poison_control(control(r), poison::pack(code, rank_));
}

bool peer_group::welcome(const message& hello, message& answer, int& memory) {
  // Only now the sender's word is more than a number: it becomes an index after it was proven and bounded.
  if (!hello.is(message_kind::hello, hello.from, rank_, secret_)) return false;
  if (hello.from <= rank_ || hello.from >= ranks() || same_process(hello.from)) return false;
  const std::lock_guard lock(guard_);
  if (peers_[hello.from].connected) return false;
  peers_[hello.from].connected = true;
  answer = message::make(message_kind::answer, rank_, hello.from, secret_);
  memory = memory_[rank_]->fd();
  return true;
}

bool peer_group::received(int peer, const message& m, unique_fd memory) {
  if (!m.is(message_kind::memory, peer, rank_, secret_) || !memory) return false;
  {
    const std::lock_guard lock(guard_);
    peers_[peer].memory = std::move(memory);
  }
  changed_.notify_all();
  return true;
}

void peer_group::ended(int peer) noexcept {
  {
    const std::lock_guard lock(guard_);
    // The kernel orders the peer's last store to its life word before the end of its socket and of its process.
    if (memory_[peer] && (life_of(control(peer)) & life::departed)) return;
    // relaxed: the release store of the poison publishes it, so that whoever finds the poison can say why.
    peers_[peer].dead.store(true, std::memory_order_relaxed);
    // Everybody learns of it before this rank can act on it: a rank that leaves because of the dead one must not be
    // found gone, and blamed, by a third that has been slower to look.
    const std::uint64_t reason = poison::pack(xylRemoteError, peer);
    for (int r = 0; r < ranks(); ++r)
      if (r != rank_ && memory_[r]) poison_control(control(r), reason);
    poison_control(control(rank_), reason);
  }
  changed_.notify_all();
}

}  // namespace xyl
