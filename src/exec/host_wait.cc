// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_wait.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "peer/poisoning.hpp"

namespace xyl {

namespace {

constexpr std::int64_t yielding_ns = 1'000'000;
constexpr timespec nap = {0, 50'000};
// Looking at the clock and at departures costs more than a poll.
constexpr int polls_per_look = 16;
// A rank that waits looks every 50 us, if it gets a processor.
constexpr std::int64_t longest_while_ns = 100'000'000;

}  // namespace

std::uint64_t host_wait::poison_word() const {
  // Acquire: whoever reads the reason may read the record that was completed before it.
  return std::atomic_ref(controls_[static_cast<std::size_t>(rank_)]->poisoned.word).load(std::memory_order_acquire);
}

void host_wait::record(xylResult_t code, const subject& what, std::uint64_t seen) {
  give_up_record& r = controls_[static_cast<std::size_t>(rank_)]->gave_up.record;
  std::uint32_t empty = 0;
  // Relaxed: this only elects the writer (a kernel of this rank may compete); the content is published below.
  if (std::atomic_ref(r.state).compare_exchange_strong(empty, 1, std::memory_order_relaxed)) {
    r.code = code;
    r.peer = what.whom.peer;
    r.waited_in = what.whom.what;
    r.wanted = what.wanted;
    r.seen = seen;
    r.epoch = what.epoch;
    if (record_ != nullptr) std::memcpy(r.call, record_, sizeof r.call);
    // Release: a reader (a peer that explains a mismatch) that sees 2 sees the fields.
    std::atomic_ref(r.state).store(2, std::memory_order_release);
  }
}

void host_wait::give_up(xylResult_t code, const subject& what, std::uint64_t seen) {
  record(code, what, seen);
  poison_all(poison::pack(code, what.whom.peer, what.epoch));
}

void host_wait::poison_all(std::uint64_t reason) {
  for (control_block* control : controls_) poison_control(*control, reason);
}

void host_wait::return_to_service() {
  control_block& own = *controls_[static_cast<std::size_t>(rank_)];
  own.gave_up.record = {};
  // Relaxed: what orders this before the peers' next calls is the caller's.
  std::atomic_ref(own.poisoned.word).store(0, std::memory_order_relaxed);
}

void host_wait::note_call() { record(xylSuccess, {{rank_, phase::none}, 0, 0}, 0); }

// relaxed, here and where it is read: a hint for people, which orders nothing.
void host_wait::say_that_it_waits(int peer, std::int64_t now) {
  auto& own = controls_[static_cast<std::size_t>(rank_)]->identity;
  std::atomic_ref(own.awaited_ns).store(now, std::memory_order_relaxed);
  std::atomic_ref(own.awaited).store(static_cast<std::uint32_t>(peer + 1), std::memory_order_relaxed);
}

// Who keeps everybody waiting, where the peer itself waits for another: the end of that chain. A rank that has not
// looked for a while is no longer waiting, whatever it said last: it is the end. Of ranks that wait for each other
// none is.
int host_wait::last_awaited(int peer) const {
  const std::int64_t now = now_ns(), a_while = std::min(longest_while_ns, limits_.deadline_ns / 4);
  int last = peer;
  for (std::size_t links = 0; links < controls_.size(); ++links) {
    auto& theirs = controls_[static_cast<std::size_t>(last)]->identity;
    const std::uint32_t awaited = std::atomic_ref(theirs.awaited).load(std::memory_order_relaxed);
    const std::int64_t looked = std::atomic_ref(theirs.awaited_ns).load(std::memory_order_relaxed);
    // A peer wrote it, so it is no index before it was bounded.
    if (awaited == 0 || awaited > controls_.size() || std::abs(now - looked) > a_while) return last;
    last = static_cast<int>(awaited) - 1;
    if (last == rank_) return peer;
  }
  return peer;
}

bool host_wait::until_slowly(const ready_function& ready, const subject& what, const std::uint64_t& seen) {
  const bool is_ready = poll_slowly(ready, what, seen);
  say_that_it_waits(-1, 0);
  return is_ready;
}

bool host_wait::poll_slowly(const ready_function& ready, const subject& what, const std::uint64_t& seen) {
  const std::int64_t start = now_ns();
  bool warned = limits_.warning_ns == 0;
  std::int64_t waited = 0;
  for (int polls = 1;; ++polls) {
    if (ready()) return true;
    if (out_of_service(what.epoch)) return false;
    if (waited < yielding_ns) {
      ::sched_yield();
      if (polls % polls_per_look != 0) continue;
    } else {
      ::nanosleep(&nap, nullptr);
    }
    const std::int64_t now = now_ns();
    waited = now - start;
    if (waited >= limits_.deadline_ns) {
      record(xylTimeout, what, seen);
      poison_all(poison::pack(xylTimeout, last_awaited(what.whom.peer), what.epoch));
      return false;
    }
    if (waited >= yielding_ns) say_that_it_waits(what.whom.peer, now);
    if (waited >= yielding_ns && has_left_ && has_left_(what.whom.peer)) {
      // It may have written before it left; only a poll after the departure was seen can tell.
      if (ready()) return true;
      // If it left because calls differ it has said so before: that is the reason, also where it was found in a
      // call that this one would not be concerned by.
      if (poison::code(poison_word()) != poison::calls_differ) give_up(xylRemoteError, what, seen);
      return false;
    }
    if (waited >= yielding_ns && has_called_another_) {
      if (const epoch_t found_in = has_called_another_(what, waited); found_in != 0) {
        // Likewise: all that it did before is there by now.
        if (ready()) return true;
        give_up(xylInvalidUsage, {what.whom, what.wanted, found_in}, seen);
        return false;
      }
    }
    if (!warned && waited >= limits_.warning_ns) {
      warned = true;
      if (warn_) warn_(what, waited);
    }
  }
}

}  // namespace xyl
