// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_transfer.hpp"

#include <optional>

namespace xyl {

namespace {

class together {
 public:
  together(host_space& s, host_wait& waits, const host_call& c, const std::vector<host_transfer>& all,
           call_record& current)
      : space_(s), waits_(waits), call_(c), all_(all), current_(current) {
    parts_.resize(all.size());
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
    if (is_first_time_) {
      is_first_time_ = false;
      for (std::size_t i = 0; i < all_.size(); ++i) waiting_.push_back(i);
    }
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
  const std::vector<host_transfer>& all_;
  call_record& current_;
  std::vector<std::optional<transfer_part<host_call>>> parts_;
  std::vector<std::size_t> waiting_, active_;
  bool is_first_time_ = true;
};

}  // namespace

bool run_host_transfers(host_space& s, host_wait& waits, const host_call& c, const std::vector<host_transfer>& all,
                        call_record& current) {
  return s.begin_pair() && together(s, waits, c, all, current).run();
}

}  // namespace xyl
