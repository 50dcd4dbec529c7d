// SPDX-License-Identifier: BSD-3-Clause
//
// The space of the self-tests of sync paths (proto/sync_trial.hpp) on threads: ranks and lanes are threads of one
// process, flags and packets are C++ atomics with the orders that each path promises. Paths can be planted with a
// fault that a machine might have.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "proto/sync_trial.hpp"
#include "spaces/lane_barrier.hpp"

namespace xyl {

enum class path_fault {
  none,
  never,        // nothing arrives
  slow,         // all arrives, late
  corrupt,      // a bit of a word is lost
  no_ordering,  // flags arrive, but say nothing about the data: for ThreadSanitizer to find
};

struct path_faults {
  path_fault of[sync_paths] = {};
  std::chrono::milliseconds delay{30};  // of what is slow
};

// What the lanes of a rank share.
struct trial_block {
  explicit trial_block(unsigned lanes) : barrier(lanes), votes(lanes) {}
  lane_barrier barrier;
  std::vector<char> votes;
};

class trial_thread_space {
 public:
  trial_thread_space(const trial_order& order, trial_block& block, unsigned lane, const path_faults& faults)
      : order_(order), block_(block), lane_(lane), faults_(faults), delay_(faults.delay) {}

  unsigned lane() const { return lane_; }
  unsigned lanes() const { return static_cast<unsigned>(block_.votes.size()); }
  void sync() { block_.barrier.arrive_and_wait(); }
  bool all(bool mine) {
    block_.votes[lane_] = mine;
    sync();
    bool verdict = true;
    for (const char vote : block_.votes) verdict = verdict && vote;
    sync();  // nobody votes again before all have counted
    return verdict;
  }
  void await_earlier() {}
  void trying(sync_path path) { fault_ = faults_.of[static_cast<int>(path)]; }
  void sent(launch_overlap) {}
  void received(launch_overlap) {}
  std::uint64_t now_ns() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  // Relaxed: a verdict is all there is to say; what goes with it is read when the launches have ended.
  bool claim(std::uint32_t* word, std::uint32_t value) {
    std::uint32_t none = 0;
    return of(*word).compare_exchange_strong(none, value, std::memory_order_relaxed);
  }
  std::uint32_t peek(std::uint32_t* word) const { return of(*word).load(std::memory_order_relaxed); }

  void post(flag_order how, flag* f, epoch_t n) {
    if (!is_meeting(f)) {
      if (fault_ == path_fault::never) return;
      if (fault_ == path_fault::slow) std::this_thread::sleep_for(delay_);
    }
    // On threads a fence and a relaxed store are no more than a release, which ThreadSanitizer understands.
    const bool orders = fault_ != path_fault::no_ordering || is_meeting(f);
    static_cast<void>(how);
    of(f->epoch).store(n, orders ? std::memory_order_release : std::memory_order_relaxed);
  }
  epoch_t look(flag_order, const flag* f) const {
    yield();
    return of(const_cast<flag*>(f)->epoch).load(std::memory_order_acquire);
  }
  void seen(flag_order) {}

  void put(line* l, std::uint64_t data, std::uint32_t n) {
    if (fault_ == path_fault::never) return;
    before_first_of_round(l);
    const std::uint64_t high = std::uint64_t{n} << 32;
    if (fault_ == path_fault::corrupt && lane_ == 0) data ^= 0x100;
    of(l->word[0]).store(high | (data & 0xffffffffu), std::memory_order_release);
    of(l->word[1]).store(high | data >> 32, std::memory_order_release);
  }
  bool get(const line* l, std::uint32_t n, std::uint64_t& data) const {
    yield();
    std::uint64_t word[2];
    for (int i = 0; i < 2; ++i) word[i] = of(const_cast<line*>(l)->word[i]).load(std::memory_order_acquire);
    data = (word[0] & 0xffffffffu) | word[1] << 32;
    return word[0] >> 32 == n && word[1] >> 32 == n;
  }

  // Neither a line of 16 bytes, to the language, nor, to any processor, one of 128 is stored at once: the last word
  // releases the others.
  void put_line(unit16* l, const unit16& whole) {
    if (fault_ == path_fault::never) return;
    before_first_of_round(l);
    for (int k = 0; k < 3; ++k)
      of(l->word[k]).store(whole.word[k] ^ (fault_ == path_fault::corrupt && k == 2), std::memory_order_relaxed);
    of(l->word[3]).store(whole.word[3], std::memory_order_release);
  }
  unit16 get_line(const unit16* l) const {
    yield();
    auto* const words = const_cast<unit16*>(l)->word;
    unit16 whole;
    whole.word[3] = of(words[3]).load(std::memory_order_acquire);
    for (int k = 0; k < 3; ++k) whole.word[k] = of(words[k]).load(std::memory_order_relaxed);
    return whole;
  }

  unsigned wide_lanes() const { return 1; }
  template <class F>
  void put_wide(wide_line* l, F word, std::uint32_t n) {
    if (fault_ == path_fault::never) return;
    before_first_of_round(l);
    for (unsigned i = 0; i < 15; ++i)
      of(l->word[i]).store(word(i) ^ (fault_ == path_fault::corrupt && i == 14), std::memory_order_relaxed);
    of(l->word[15]).store(n, std::memory_order_release);
  }
  template <class F>
  bool get_wide(const wide_line* l, std::uint32_t n, F take) const {
    yield();
    auto* const words = const_cast<wide_line*>(l)->word;
    if (of(words[15]).load(std::memory_order_acquire) != n) return false;
    for (unsigned i = 0; i < 15; ++i) take(i, of(words[i]).load(std::memory_order_relaxed));
    return true;
  }
  bool any_of_wide(bool v) const { return v; }

  unit16 load_peer16(const unit16* from) const { return *from; }
  void store16(unit16* to, unit16 data) {
    if (fault_ == path_fault::corrupt && lane_ == 0) data.word[2] ^= 1;
    *to = data;
  }

 private:
  template <class T>
  static std::atomic_ref<T> of(T& object) {
    return std::atomic_ref<T>(object);
  }
  // Ranks may outnumber processors.
  static void yield() { sched_yield(); }
  bool is_meeting(const flag* f) const {
    for (int r = 0; r < order_.ranks; ++r)
      if (f ==
          at<const flag>(order_, r,
                         order_.map.trial_flag_offset(trial_flag::meeting, static_cast<unsigned>(order_.rank))))
        return true;
    return false;
  }
  void before_first_of_round(const void* l) const {
    if (fault_ != path_fault::slow || lane_ != 0) return;
    for (int r = 0; r < order_.ranks; ++r)
      for (unsigned slot : {0u, 1u})
        if (l == at<void>(order_, r, order_.map.trial_data_offset(slot, static_cast<unsigned>(order_.rank))))
          std::this_thread::sleep_for(delay_);
  }

  const trial_order& order_;
  trial_block& block_;
  const unsigned lane_;
  const path_faults& faults_;
  const std::chrono::milliseconds delay_;
  path_fault fault_ = path_fault::none;
};

}  // namespace xyl
