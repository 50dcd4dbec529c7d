// SPDX-License-Identifier: BSD-3-Clause
//
// How a rank on the CPU waits for its peers, and how it stops waiting. It polls without a pause for about 2 us (200
// polls were over before a peer's cache line had come: a 2-rank barrier took 0.82 us with 200 and 0.15 us with
// 3,000), then offers the processor to others, and after a millisecond sleeps between polls. Where ranks outnumber
// processors (laptops, CI) it offers sooner, since the peer it waits for may be waiting for this very processor: a
// 4-rank barrier on 2 cores took 4,280 us with spinning alone. Poison ends every wait.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "proto/call.hpp"
#include "proto/space.hpp"
#include "xylem/xylem.h"

namespace xyl {

struct wait_limits {
  std::int64_t deadline_ns = 600'000'000'000;
  std::int64_t warning_ns = 10'000'000'000;  // 0: never
  int polls_before_yielding = 3000;
};

class host_wait {
 public:
  // What is being waited for.
  struct subject {
    waiting whom;
    std::uint64_t wanted;
    epoch_t epoch;
  };
  // A peer that has left for good will never arrive; asked now and then.
  using has_left = std::function<bool(int rank)>;
  // Whether what is waited for will not come, because the peer is known to be in another call or to have left it;
  // asked now and then. The epoch in which that was found, or 0.
  using has_called_another = std::function<epoch_t(const subject&, std::int64_t waited_ns)>;
  // One line for a person, after warning_ns.
  using warn = std::function<void(const subject&, std::int64_t waited_ns)>;

  // controls: every rank's control block, this rank's at `rank`.
  host_wait(std::vector<control_block*> controls, int rank, wait_limits limits, has_left left, warn warning)
      : controls_(std::move(controls)),
        rank_(rank),
        limits_(limits),
        has_left_(std::move(left)),
        warn_(std::move(warning)) {}

  void ask_about_calls(has_called_another asked) { has_called_another_ = std::move(asked); }

  // The call that give-up records describe.
  void describe_calls_by(const call_record& record) { record_ = &record; }

  template <class Ready>
  bool until(Ready ready, const subject& what, const std::uint64_t& seen) {
    for (int polls = 0; polls < limits_.polls_before_yielding; ++polls)
      if (ready()) return true;
    return until_slowly(std::ref(ready), what, seen);
  }

  bool out_of_service() const { return poison_word() != 0; }
  // The same for who is in the call of that epoch.
  bool out_of_service(epoch_t epoch) const { return poison::concerns(poison_word(), epoch); }
  std::uint64_t poison_word() const;

  // Records why (the first reason of this rank stays) and poisons every rank.
  void give_up(xylResult_t code, const subject& what, std::uint64_t seen);

  // Writes down which call this rank leaves because another gave up: peers may want to print it. The first record
  // stays.
  void note_call();

  // Forgets what ended a call: as if nobody had given up. Only where every rank has left that call, and nobody
  // makes another before all have done this.
  void return_to_service();

 private:
  using ready_function = std::function<bool()>;
  void record(xylResult_t code, const subject& what, std::uint64_t seen);
  bool until_slowly(const ready_function& ready, const subject& what, const std::uint64_t& seen);
  bool poll_slowly(const ready_function& ready, const subject& what, const std::uint64_t& seen);
  void poison_all(std::uint64_t reason);
  void say_that_it_waits(int peer, std::int64_t now);
  int last_awaited(int peer) const;

  std::vector<control_block*> controls_;
  int rank_;
  wait_limits limits_;
  has_left has_left_;
  has_called_another has_called_another_;
  warn warn_;
  const call_record* record_ = nullptr;
};

}  // namespace xyl
