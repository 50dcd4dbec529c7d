// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_transfer.hpp"

#include <numeric>

namespace xyl {

struct host_transfers::running {
  running(host_transfers& room, host_space& s, host_wait& waits, const host_call& c,
          std::span<const host_transfer> all, call_record& current)
      : space_(s),
        waits_(waits),
        call_(c),
        all_(all),
        current_(current),
        parts_(room.parts_),
        waiting_(room.waiting_),
        active_(room.active_) {
    parts_.resize(all.size());
    waiting_.resize(all.size());
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
  }
  ~running() {
    parts_.clear();
    waiting_.clear();
    active_.clear();
  }

  bool run() {
    start_waiting();
    while (!waiting_.empty() || !active_.empty()) {
      bool has_moved = false;
      for (const std::size_t i : active_) {
        bool good = true;
        has_moved = move_what_is_ready(i, good) || has_moved;
        if (!good) return false;
      }
      if (std::erase_if(active_, [&](std::size_t i) { return parts_[i]->is_done(); }) > 0)
        start_waiting();
      else if (!has_moved && !wait_for_any())
        return false;
    }
    return true;
  }

 private:
  // Begins the transfers that are the first of their peer and direction.
  void start_waiting() {
    std::erase_if(waiting_, [&](std::size_t i) {
      for (const std::size_t before : active_)
        if (all_[before].what.peer == all_[i].what.peer && all_[before].what.sends == all_[i].what.sends)
          return false;
      active_.push_back(i);
      // The number of its first chunk is read now: those before it have counted.
      parts_[i].emplace(call_, all_[i].what, 0);
      return true;
    });
  }

  bool move_what_is_ready(std::size_t i, bool& good) {
    transfer_part<host_call>& part = *parts_[i];
    bool has_moved = false;
    current_ = all_[i].record;
    while (!part.is_done() && part.is_ready<host_space>(call_)) {
      // Compares headers; has nothing to wait for.
      good = part.await(space_, call_);
      if (!good) return true;
      good = part.move(space_, call_);
      if (!good) return true;
      has_moved = true;
    }
    return has_moved;
  }

  bool wait_for_any() {
    const transfer& first = all_[active_.front()].what;
    current_ = all_[active_.front()].record;
    const std::uint64_t nothing_seen = 0;
    return waits_.until(
        [&] {
          for (const std::size_t i : active_)
            if (parts_[i]->is_ready<host_space>(call_)) return true;
          return false;
        },
        {waiting{first.peer, first.sends ? phase::credit : phase::message}, 0, space_.epoch()}, nothing_seen);
  }

  host_space& space_;
  host_wait& waits_;
  const host_call& call_;
  const std::span<const host_transfer> all_;
  call_record& current_;
  std::vector<std::optional<transfer_part<host_call>>>& parts_;
  std::vector<std::size_t>&waiting_, &active_;
};

bool host_transfers::goes_at_once(host_space& s, const host_call& c, const transfer& what, bool& good) {
  if (what.offered || what.bytes > c.map.pair_chunk) return false;
  transfer_part<host_call> part(c, what, 0);
  if (!part.is_ready<host_space>(c)) return false;
  good = part.await(s, c) && part.move(s, c);
  return true;
}

bool host_transfers::run(host_space& s, host_wait& waits, const host_call& c, std::span<const host_transfer> all,
                         call_record& current) {
  return running(*this, s, waits, c, all, current).run();
}

}  // namespace xyl
