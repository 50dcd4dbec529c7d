// SPDX-License-Identifier: BSD-3-Clause
//
// In which order a rank enqueues the copies and steps of copied.hpp, on which of its three queues, and which of
// them wait for which: the same for the queues of a device, of a graph that is captured, and for the threads of a
// test.
//
// Slots. A chunk's share is written at a peer four chunks after the last in that slot. Before it sends chunk i + 1
// a rank has sent its result of i - 1, so it had the shares of i - 1 from all; they sent those after their results
// of i - 3, for which they had taken that slot's shares. And before it sends its result of i + 1 it had the shares
// of i + 1 from all, who sent them after their results of i - 1, which they added up after they had delivered i
// - 3. So nobody has to say that a slot is free.
//
// Waiting. A device may run the queues beside each other or, where it has no room for that, one operation behind
// the other, in any order that the marks allow, and a step that waits may hold up all that device does. Neither may
// end with ranks that wait for each other. Hence two marks that data does not need: what is to be awaited from a
// peer, this rank has sent itself. Then a peer that has not yet sent it is held up, if at all, at a step that is
// enqueued earlier than the one that waits for it, so that there is no circle.
#pragma once

#include "proto/copied.hpp"

namespace xyl {

enum class copy_queue : std::uint8_t { compute, up, down };
inline constexpr int copy_queues = 3;

// A place in a queue that another queue waits for. Those of a chunk are used again four chunks later, when what
// waits for the earlier ones has long been enqueued.
struct copy_mark {
  enum kind : std::uint8_t { begun, ended, sent, taken, summed, result_sent, results_taken };
  static constexpr int kinds = 7;
  static constexpr int count = kinds * static_cast<int>(layout::copy_slots);

  kind what = begun;
  std::uint64_t chunk = 0;  // ended: the queue

  constexpr int index() const {
    return static_cast<int>(what) * static_cast<int>(layout::copy_slots) +
           static_cast<int>(chunk % layout::copy_slots);
  }
};

struct copied_operation {
  enum kind : std::uint8_t {
    step,
    send_shares,
    take_shares,
    reduce,
    send_result,
    take_results,
    deliver,
    mark,       // here
    await_mark  // of another queue
  };
  kind what = step;
  copy_queue on = copy_queue::compute;
  std::uint64_t chunk = 0;
  copy_step how = {};    // of a step
  copy_mark where = {};  // of a mark
};

// f(operation) -> bool: false ends it, and is returned. On the compute queue the call's headers have been seen, and
// what is enqueued there afterwards comes after everything.
template <class F>
bool for_each_copied_operation(std::uint64_t chunks, F f) {
  using op = copied_operation;
  using enum copy_queue;
  static_assert(layout::copy_slots >= 4, "see above");
  bool good = true;
  const auto put = [&](const op& o) { good = good && f(o); };
  const auto join = [&](copy_queue first, copy_queue then, copy_mark where) {
    put({op::mark, first, 0, {}, where});
    put({op::await_mark, then, 0, {}, where});
  };
  const auto step = [&](copy_queue on, flag_family family, std::uint64_t chunk) {
    put({op::step, on, chunk, {family, static_cast<std::uint32_t>(chunk + 1), on == up}, {}});
  };

  put({op::mark, compute, 0, {}, {copy_mark::begun}});
  for (const copy_queue on : {up, down}) put({op::await_mark, on, 0, {}, {copy_mark::begun}});
  for (std::uint64_t i = 0; good && i <= chunks; ++i) {
    const std::uint64_t last = i - 1;  // the chunk before; where i > 0
    if (i < chunks) {
      put({op::send_shares, up, i, {}, {}});
      step(up, flag_family::copied_share, i);
      join(up, down, {copy_mark::sent, i});
    }
    if (i > 0) {
      put({op::await_mark, up, 0, {}, {copy_mark::summed, last}});
      put({op::send_result, up, last, {}, {}});
      step(up, flag_family::copied_result, last);
    }
    if (i < chunks) {
      step(down, flag_family::copied_share, i);
      put({op::take_shares, down, i, {}, {}});
      join(down, compute, {copy_mark::taken, i});
      put({op::reduce, compute, i, {}, {}});
      put({op::mark, compute, 0, {}, {copy_mark::summed, i}});
    }
    if (i > 0) {
      join(up, down, {copy_mark::result_sent, last});
      step(down, flag_family::copied_result, last);
      put({op::take_results, down, last, {}, {}});
      join(down, compute, {copy_mark::results_taken, last});
      put({op::deliver, compute, last, {}, {}});
    }
  }
  for (const copy_queue on : {up, down}) join(on, compute, {copy_mark::ended, static_cast<std::uint64_t>(on)});
  return good;
}

}  // namespace xyl
