// SPDX-License-Identifier: BSD-3-Clause
//
// In which order a rank enqueues the copies and steps of copied.hpp, on which of its queues, and which of them wait
// for which: the same for the streams of a device, for a graph that is captured, and for the threads of a test.
// Both directions of a link have two queues, so that one copies while the step between two copies of the other
// runs. What takes two phases has one for each; what takes one uses them for even and for odd chunks.
//
// Slots. A chunk's share is written at a peer some chunks after the last in that slot; four are enough where there
// are two phases. Before it sends chunk i + 1
// a rank has sent its result of i - 1, so it had the shares of i - 1 from all; they sent those after their results
// of i - 3, for which they had taken that slot's shares. And before it sends its result of i + 1 it had the shares
// of i + 1 from all, who sent them after their results of i - 1, which they added up after they had delivered i
// - 3. So nobody has to say that a slot is free.
//
// Waiting. A device may run the queues beside each other or, where it has no room for that, one operation behind
// the other, in any order that the marks allow, and a step that waits may hold up all that device does. Neither may
// end with ranks that wait for each other. Hence marks that data does not need: before it awaits something from a
// peer, a rank has sent the same itself, and, before the results of a chunk, the shares of the next. Then a peer
// that has not yet sent it is held up, if at all, at a step that is enqueued earlier than the one that waits for
// it, so that there is no circle.
#pragma once

#include "proto/copied.hpp"

namespace xyl {

// compute is where the caller's own work is.
enum class copy_queue : std::uint8_t { compute, send_shares, send_results, take_shares, take_results };
inline constexpr int copy_queues = 5;

// A place in a queue that another queue waits for. Those of a chunk are used again some chunks later, when what
// waits for the earlier ones has long been enqueued.
struct copy_mark {
  enum kind : std::uint8_t { begun, met, ended, sent, taken, summed, result_sent, results_taken };
  static constexpr int kinds = 8, of_kind = 8;
  static constexpr int count = kinds * of_kind;

  kind what = begun;
  std::uint64_t chunk = 0;  // ended: the queue

  constexpr int index() const {
    return static_cast<int>(what) * of_kind + static_cast<int>(chunk % static_cast<unsigned>(of_kind));
  }
};

struct copied_operation {
  enum kind : std::uint8_t {
    meet,  // all ranks
    step,
    copy,  // of the queue's kind
    reduce,
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

// What both schedules are written in; f(operation) -> bool: false ends them.
template <class F>
struct copy_scheduler {
  using op = copied_operation;
  F& f;
  bool good = true;

  void put(const op& o) { good = good && f(o); }
  void mark(copy_queue on, copy_mark where) { put({op::mark, on, 0, {}, where}); }
  void await(copy_queue on, copy_mark where) { put({op::await_mark, on, 0, {}, where}); }
  // To send is to copy and tell, to take is to wait and copy. The first on a queue is told behind the meeting.
  void send(copy_queue on, flag_family family, std::uint64_t chunk, bool is_first = false) {
    put({op::copy, on, chunk, {}, {}});
    if (is_first) await(on, {copy_mark::met});
    put({op::step, on, chunk, {family, static_cast<std::uint32_t>(chunk + 1), true}, {}});
  }
  void take(copy_queue on, flag_family family, std::uint64_t chunk) {
    put({op::step, on, chunk, {family, static_cast<std::uint32_t>(chunk + 1), false}, {}});
    put({op::copy, on, chunk, {}, {}});
  }
  template <std::size_t N>
  void begin(const copy_queue (&copying)[N]) {
    mark(copy_queue::compute, {copy_mark::begun});
    for (const copy_queue on : copying) await(on, {copy_mark::begun});
    put({op::meet, copy_queue::compute, 0, {}, {}});
    mark(copy_queue::compute, {copy_mark::met});
  }
  template <std::size_t N>
  void end(const copy_queue (&copying)[N]) {
    for (const copy_queue on : copying) {
      const copy_mark where{copy_mark::ended, static_cast<std::uint64_t>(on)};
      mark(on, where);
      await(copy_queue::compute, where);
    }
    put({op::meet, copy_queue::compute, 0, {}, {}});
  }
};

// Of an allreduce. f(operation) -> bool: false ends it, and is returned. What is enqueued on the compute queue
// afterwards comes after everything.
template <class F>
bool for_each_copied_operation(std::uint64_t chunks, F f) {
  using enum copy_queue;
  static_assert(layout::copy_slots >= 4, "see above");
  constexpr copy_queue copying[] = {send_shares, send_results, take_shares, take_results};
  copy_scheduler<F> s{f};
  s.begin(copying);
  for (std::uint64_t i = 0; s.good && i <= chunks; ++i) {
    const std::uint64_t last = i - 1;  // the chunk before; where i > 0
    if (i < chunks) {
      if (i >= 2) s.await(send_shares, {copy_mark::result_sent, i - 2});
      s.send(send_shares, flag_family::copied_share, i, i == 0);
      s.mark(send_shares, {copy_mark::sent, i});
    }
    if (i > 0) {
      s.await(send_results, {copy_mark::summed, last});
      s.send(send_results, flag_family::copied_result, last);
      s.mark(send_results, {copy_mark::result_sent, last});
    }
    if (i < chunks) {
      s.await(take_shares, {copy_mark::sent, i});
      s.take(take_shares, flag_family::copied_share, i);
      s.mark(take_shares, {copy_mark::taken, i});
      s.await(compute, {copy_mark::taken, i});
      s.put({copied_operation::reduce, compute, i, {}, {}});
      s.mark(compute, {copy_mark::summed, i});
    }
    if (i > 0) {
      s.await(take_results, {copy_mark::result_sent, last});
      if (i < chunks) s.await(take_results, {copy_mark::sent, i});
      s.take(take_results, flag_family::copied_result, last);
      s.mark(take_results, {copy_mark::results_taken, last});
      s.await(compute, {copy_mark::results_taken, last});
      s.put({copied_operation::deliver, compute, last, {}, {}});
    }
  }
  s.end(copying);
  return s.good;
}

// Of what takes one phase, in which every rank tells every other, also where there is nothing to copy: collectives
// that move pieces, and sums of them (reduce-scatter, and an allreduce of two ranks, which send no more bytes so).
// Even and odd chunks have flags of their own, so that no chunk is told by the next one's number. As many chunks as
// half of the slots are on their way, which is what it takes to keep a link busy while the chunk that came last is
// told, awaited, taken and delivered. Slots: a rank that sends chunk i + ahead has delivered chunk i, so it had it
// from all, who had delivered i - ahead before they sent it.
template <class F>
bool for_each_copied_movement(std::uint64_t chunks, F f) {
  using enum copy_queue;
  constexpr std::uint64_t ahead = layout::copy_slots / 2;
  constexpr copy_queue copying[] = {send_shares, send_results, take_shares, take_results};
  copy_scheduler<F> s{f};
  s.begin(copying);
  for (std::uint64_t i = 0; s.good && i < chunks; ++i) {
    const bool odd = i % 2 != 0;
    const copy_queue sending = odd ? send_results : send_shares, taking = odd ? take_results : take_shares;
    const flag_family family = odd ? flag_family::copied_result : flag_family::copied_share;
    if (i >= ahead) s.await(sending, {copy_mark::summed, i - ahead});
    s.send(sending, family, i, i < 2);
    s.mark(sending, {copy_mark::sent, i});
    // Of all chunks up to this one: the queues have each its own order.
    if (i > 0) s.await(taking, {copy_mark::sent, i - 1});
    s.await(taking, {copy_mark::sent, i});
    s.take(taking, family, i);
    s.mark(taking, {copy_mark::taken, i});
    s.await(compute, {copy_mark::taken, i});
    s.put({copied_operation::deliver, compute, i, {}, {}});
    s.mark(compute, {copy_mark::summed, i});
  }
  s.end(copying);
  return s.good;
}

}  // namespace xyl
