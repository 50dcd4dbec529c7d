// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives moved by copy engines, the queues of every rank being threads: memcpy for a copy, a counter for a
// mark, the shipped schedule for what is enqueued. Between them calls of another protocol use the same memory. A
// queue that has failed copies nothing more: what a device would still copy lies where nobody looks, but
// ThreadSanitizer would.
#pragma once

#include <array>

#include "proto/copied_schedule.hpp"
#include "proto/thread_machine.hpp"

namespace xyl::test {

struct copied_case {
  int ranks = 2;
  bool staged = true;  // workspaces in host memory: what arrives is taken to memory of the rank's own
  std::uint64_t stride = 512;
  epoch_t last_epoch = epoch_zero;
  std::uint64_t seed = 1;
  int odd_rank = -1;  // believes in another count in the last call
  std::chrono::nanoseconds deadline = std::chrono::seconds(60);
};
struct copied_plan {
  int kind = 0;
  std::uint64_t count = 0;  // 0: a two-shot allreduce of a few elements instead
  bool in_place = false;
  unsigned shift = 0;                        // elements by which both buffers are off
  collective what = collective::all_reduce;  // or all_gather, all_to_all, reduce_scatter, broadcast from rank 1

  bool is_one_phase(int ranks) const {
    return what != collective::all_reduce || copied_message::sums_in_one_phase(static_cast<unsigned>(ranks));
  }
  bool adds_up(int ranks) const {
    return is_one_phase(ranks) && (what == collective::all_reduce || what == collective::reduce_scatter);
  }
  bool has_many_in() const { return what == collective::all_to_all || what == collective::reduce_scatter; }
  bool has_many_out() const { return what == collective::all_to_all || what == collective::all_gather; }
  movement moves(std::uint64_t bytes) const {
    movement m{bytes, has_many_in() ? bytes : 0, has_many_out() ? bytes : 0};
    if (what == collective::broadcast) m.from = 1;
    return m;
  }
};

// Space: derived from thread_space.
template <class Space = thread_space, kind_selection Kinds = every_kind>
class copied_machine {
 public:
  explicit copied_machine(const copied_case& p)
      : plan_(p),
        map_(layout::make(static_cast<unsigned>(p.ranks), 1, 1024, 4096 * static_cast<unsigned>(p.ranks), 0, 4,
                          layout::copy_slots * static_cast<unsigned>(p.ranks) * p.stride)) {
    std::vector<std::byte*> workspaces;
    for (int r = 0; r < p.ranks; ++r) {
      for (auto* memory : {&workspaces_, &own_}) {
        memory->emplace_back(map_.bytes / sizeof(flag));
        std::memset(static_cast<void*>(memory->back().data()), 0, map_.bytes);
      }
      workspaces.push_back(reinterpret_cast<std::byte*>(workspaces_.back().data()));
    }
    for (int r = 0; r < p.ranks; ++r) {
      // A block for each queue: only what blocks share is used, not their number.
      ranks_.push_back(std::make_unique<thread_rank>(r, workspaces, copy_queues, 1, p.deadline));
      ranks_.back()->control(r).call.epoch = p.last_epoch;
    }
  }

  guarded_buffer& output(int r, std::size_t call) { return *buffers_[call * unsigned_ranks() + unsigned(r)].out; }
  const give_up_record& record(int r) { return ranks_[unsigned(r)]->control(r).gave_up.record; }

  bool run(const std::vector<copied_plan>& calls) {
    calls_ = calls;
    prepare();
    marks_ = std::vector<std::array<std::atomic<std::uint64_t>, copy_mark::count>>(unsigned_ranks());
    std::vector<std::thread> threads;
    std::atomic<bool> good{true};
    for (int r = 0; r < plan_.ranks; ++r)
      for (int q = 0; q < copy_queues; ++q)
        threads.emplace_back([this, &good, r, q] {
          if (!run_queue(r, static_cast<copy_queue>(q))) good.store(false, std::memory_order_relaxed);
        });
    for (auto& thread : threads) thread.join();
    return good.load(std::memory_order_relaxed);
  }

  std::string check() {
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r)
        if (const std::string wrong = check_one(r, i); !wrong.empty())
          return "call " + std::to_string(i) + " (kind " + std::to_string(calls_[i].kind) + ", count " +
                 std::to_string(calls_[i].count) + ", shift " + std::to_string(calls_[i].shift) + ", in place " +
                 std::to_string(calls_[i].in_place) + ", collective " +
                 std::to_string(static_cast<int>(calls_[i].what)) + ") on rank " + std::to_string(r) + ": " + wrong;
    return "";
  }

 private:
  static constexpr std::uint64_t other_count = 37;
  struct buffers {
    std::unique_ptr<guarded_buffer> in, out;
    std::byte *input = nullptr, *output = nullptr;
  };
  struct queued {
    copied_operation what;
    std::uint64_t mark = 0;  // how often it has been set, this time included, or when the wait was enqueued
  };
  std::size_t unsigned_ranks() const { return static_cast<std::size_t>(plan_.ranks); }
  static unsigned unsigned_of(int r) { return static_cast<unsigned>(r); }
  std::uint64_t count_of(std::size_t i) const { return calls_[i].count ? calls_[i].count : other_count; }

  void prepare() {
    buffers_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i)
      for (int r = 0; r < plan_.ranks; ++r) {
        const copied_plan& c = calls_[i];
        const std::size_t element = element_bytes(c.kind), bytes = count_of(i) * element;
        const std::uint64_t pieces = c.has_many_in() ? unsigned_ranks() : 1;
        buffers& b = buffers_.emplace_back();
        b.out =
            std::make_unique<guarded_buffer>(bytes * (c.has_many_out() ? unsigned_ranks() : 1), c.shift * element);
        if (!c.in_place) b.in = std::make_unique<guarded_buffer>(bytes * pieces, c.shift * element);
        b.output = b.out->data();
        b.input = c.in_place ? b.output : b.in->data();
        with_kind(c.kind, [&]<class Kind>(Kind) {
          using T = typename Kind::element;
          for (std::uint64_t k = 0; k < count_of(i) * pieces; ++k) {
            const T value = input_element<T>(i + 1, r, k);
            std::memcpy(b.input + k * sizeof(T), &value, sizeof(T));
          }
        });
      }
  }

  // What a rank enqueues for all its calls on one queue, as the host would: marks are counted while enqueueing.
  bool run_queue(int r, copy_queue on) {
    std::array<std::uint64_t, copy_mark::count> set{};
    std::uint64_t seed = mix64(plan_.seed + unsigned_of(r) * 8 + static_cast<unsigned>(on));
    bool good = true;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      call<machine_capacity> c;
      fill(c, r, i);
      if (calls_[i].count == 0) {
        if (on == copy_queue::compute) good = other_call(r, c, calls_[i].kind, ++seed) && good;
        continue;
      }
      const std::uint64_t bytes = count_of(i) * element_bytes(calls_[i].kind);
      const bool one_phase = calls_[i].is_one_phase(plan_.ranks);
      const copied_message message =
          one_phase ? copied_message::cut_piece(bytes, map_) : copied_message::cut(bytes, map_);
      const auto enqueue = [&](const copied_operation& o) {
        queued q{o, 0};
        if (o.what == copied_operation::mark) q.mark = ++set[static_cast<unsigned>(o.where.index())];
        if (o.what == copied_operation::await_mark) q.mark = set[static_cast<unsigned>(o.where.index())];
        if (o.on == on) good = run_one(r, c, q, message.chunk(o.chunk), calls_[i], good, ++seed) && good;
        return true;
      };
      if (one_phase)
        for_each_copied_movement(message.chunks(), enqueue);
      else
        for_each_copied_operation(message.chunks(), enqueue);
    }
    return good;
  }

  void fill(call<machine_capacity>& c, int r, std::size_t i) {
    const buffers& b = buffers_[i * unsigned_ranks() + unsigned_of(r)];
    c.input = b.input;
    c.output = b.output;
    c.count = count_of(i);
    c.rank = r;
    c.ranks = plan_.ranks;
    c.map = map_;
    c.fingerprint = 0x1234567890abcdefull + i + 1000 * (r == plan_.odd_rank && i + 1 == calls_.size());
    for (int p = 0; p < plan_.ranks; ++p) c.workspace[p] = ranks_[unsigned_of(r)]->workspaces[unsigned_of(p)];
  }

  bool other_call(int r, const call<machine_capacity>& c, int kind, std::uint64_t seed) {
    Space s(*ranks_[unsigned_of(r)], 0, 1, 0, seed);
    bool good = false;
    with_selected(kind, [&]<class Kind>(Kind) { good = run_protocol<Kind, 0>(s, c, protocol::two_shot); });
    return good;
  }
  template <class F>
  static void with_selected(int kind, F f) {
    if constexpr (Kinds == float_sum_only)
      f(xyl::test::kind<float, operation::sum>{});
    else
      with_kind(kind, f);
  }

  std::byte* landed(int r, const copied_chunk& k) {
    return plan_.staged ? reinterpret_cast<std::byte*>(own_[unsigned_of(r)].data()) + map_.bulk +
                              map_.copied_offset(k.number, 0) - map_.copies
                        : ranks_[0]->workspaces[unsigned_of(r)] + map_.copied_offset(k.number, 0);
  }

  bool run_one(int r, const call<machine_capacity>& c, const queued& q, const copied_chunk& k,
               const copied_plan& plan, bool healthy, std::uint64_t seed) {
    const int kind = plan.kind;
    const movement m = plan.moves(c.count * element_bytes(kind));
    auto& mark = marks_[unsigned_of(r)][static_cast<unsigned>(q.what.where.index())];
    const std::uint64_t half = map_.copy_stride / 2;
    Space s(*ranks_[unsigned_of(r)], static_cast<unsigned>(q.what.on), 1, 0, seed);
    switch (q.what.what) {
      case copied_operation::mark:
        // Release and acquire: what streams and events promise.
        mark.store(q.mark, std::memory_order_release);
        return true;
      case copied_operation::await_mark:
        while (mark.load(std::memory_order_acquire) < q.mark) sched_yield();
        return true;
      case copied_operation::meet:
        return barrier(s, c);
      case copied_operation::step:
        return run_copy_step(s, c, q.what.how);
      case copied_operation::reduce:
      case copied_operation::deliver: {
        if (!s.begin_pair()) return false;
        const bool adds_up = q.what.what == copied_operation::reduce || plan.adds_up(plan_.ranks);
        const std::uint64_t own = plan.what == collective::reduce_scatter ? m.input_stride * unsigned_of(r) : 0;
        const copied_call now{
            c.input + own + k.first, c.output + k.first, k.bytes / element_bytes(kind), r, plan_.ranks,
            map_.copy_stride,        {landed(r, k)}};
        thread_space on_first_block(*ranks_[unsigned_of(r)], 0, 1, 0, seed);
        if (adds_up)
          with_selected(kind, [&]<class Kind>(Kind) {
            reduction<portable_codec<typename Kind::element>, typename Kind::combining, 0> red;
            if (Kind::average) red.divisor = static_cast<unsigned>(plan_.ranks);
            if (plan.is_one_phase(plan_.ranks))
              reduce_moved(on_first_block, now, red);
            else
              reduce_copied(on_first_block, now, red, k);
          });
        else if (plan.is_one_phase(plan_.ranks))
          deliver_moved(on_first_block, now, {k.bytes, m.input_stride, m.output_stride, m.from, m.to});
        else
          deliver_copied(on_first_block, now, k);
        return true;
      }
      case copied_operation::copy:
        break;
    }
    for (int i = 1; i < plan_.ranks && healthy; ++i) {
      const int p = (r + i) % plan_.ranks;
      std::byte* const there = c.workspace[p] + map_.copied_offset(k.number, unsigned_of(r));
      const std::uint64_t region = map_.copy_stride * unsigned_of(p);
      const std::byte* const here = c.workspace[r] + map_.copied_offset(k.number, 0) + region;
      const bool phase = plan.is_one_phase(plan_.ranks);
      const bool sends = q.what.on == copy_queue::send_shares || q.what.on == copy_queue::send_results;
      const bool results =
          !phase && (q.what.on == copy_queue::send_results || q.what.on == copy_queue::take_results);
      const std::uint64_t at = results ? half : 0;
      if (sends && phase && m.goes(r, p))
        std::memcpy(there, c.input + m.input_stride * unsigned_of(p) + k.first, k.bytes);
      else if (sends && !phase && !results)
        std::memcpy(there, c.input + k.first + k.begin_of(p), k.bytes_of(p));
      else if (sends && results)
        std::memcpy(there + half, c.output + k.first + k.begin_of(r), k.bytes_of(r));
      else if (!sends && plan_.staged && (!phase || m.goes(p, r)))
        std::memcpy(landed(r, k) + region + at, here + at, phase ? k.bytes : k.bytes_of(results ? p : r));
    }
    return true;
  }

  std::string check_one(int r, std::size_t i) {
    if (!output(r, i).guards_untouched()) return "bytes around the output were written";
    std::string wrong;
    with_kind(calls_[i].kind, [&]<class Kind>(Kind) {
      using T = typename Kind::element;
      const std::uint64_t count = count_of(i), own = unsigned_of(r) * count;
      const copied_plan& c = calls_[i];
      for (std::uint64_t k = 0; k < count * (c.has_many_out() ? unsigned_ranks() : 1) && wrong.empty(); ++k) {
        const T expected =
            c.what == collective::all_reduce
                ? expected_element<Kind>(protocol::two_shot, i + 1, plan_.ranks, k, count)
            : c.what == collective::reduce_scatter
                ? expected_element<Kind>(protocol::two_shot, i + 1, plan_.ranks, own + k, count * unsigned_ranks())
            : c.what == collective::broadcast
                ? input_element<T>(i + 1, 1, k)
                : input_element<T>(i + 1, static_cast<int>(k / count), k % count + (c.has_many_in() ? own : 0));
        if (std::memcmp(output(r, i).data() + k * sizeof(T), &expected, sizeof(T)) != 0)
          wrong = "element " + std::to_string(k) + " is wrong";
      }
    });
    return wrong;
  }

  const copied_case plan_;
  const layout map_;
  std::vector<std::vector<flag>> workspaces_, own_;
  std::vector<std::unique_ptr<thread_rank>> ranks_;
  std::vector<copied_plan> calls_;
  std::vector<buffers> buffers_;
  std::vector<std::array<std::atomic<std::uint64_t>, copy_mark::count>> marks_;
};

}  // namespace xyl::test
