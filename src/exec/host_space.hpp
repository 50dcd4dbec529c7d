// SPDX-License-Identifier: BSD-3-Clause
//
// The execution space of a rank on the CPU: one block of one lane, over workspaces in memory that the ranks'
// processes (or threads) share. It relies on 8-byte atomics being address-free, which std::atomic_ref guarantees
// where it is lock-free.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "exec/host_hints.hpp"
#include "exec/host_stage.hpp"
#include "exec/host_wait.hpp"
#include "os/process_memory.hpp"
#include "proto/space.hpp"

namespace xyl {

class host_space {
  using word = std::atomic_ref<std::uint64_t>;
  static_assert(word::is_always_lock_free);

 public:
  host_space(host_wait& waits, control_block& control, const store_choice& stores = {})
      : waits_(waits), control_(control), staging_(stores) {}

  // Lets take() work: how the ranks' processes, which outlive this, are called, and how their memory is read.
  void reach(const std::vector<std::int64_t>& processes, process_reader read) {
    processes_ = &processes;
    read_ = read;
  }

  bool begin() {
    found_in_ = epoch_ = next_epoch(control_.call.epoch);
    return !waits_.out_of_service(epoch_);
  }
  bool begin_pair() {
    found_in_ = epoch_ = poison::epoch_of_pairs(next_epoch(control_.call.epoch));
    return !waits_.out_of_service(epoch_);
  }
  // Between the calls with epochs. Calls that differ, found in the next of them, are of no concern to this one, as
  // if it belonged to the last; but what is found here is of none to the last.
  bool begin_one_way() {
    found_in_ = next_epoch(control_.call.epoch);
    epoch_ = control_.call.epoch;
    return !waits_.out_of_service(epoch_);
  }
  epoch_t epoch() const { return epoch_; }
  void leave() { control_.call.epoch = epoch_; }

  static constexpr bool single_lane = true;
  static constexpr unsigned lane() { return 0; }
  static constexpr unsigned lanes() { return 1; }
  static constexpr unsigned block() { return 0; }
  static constexpr unsigned blocks() { return 1; }
  static void sync() {}
  static bool all(bool verdict) { return verdict; }

  void post(flag* f, epoch_t e) {
    staging_.settle();
    // Release: the data this thread wrote to the peer is there before the flag.
    word(f->epoch).store(e, std::memory_order_release);
  }

  bool await(const flag* f, epoch_t e, waiting w) {
    std::uint64_t seen = 0;
    return waits_.until(
        [&] {
          // Acquire: what the peer wrote before it posted may be read after.
          seen = word(const_cast<flag*>(f)->epoch).load(std::memory_order_acquire);
          return seen >= e;
        },
        {w, e, epoch_}, seen);
  }

  // Whether an await, or a get_all of one line, would end at once. Acquire, as they.
  static bool reached(const flag* f, epoch_t e) {
    return word(const_cast<flag*>(f)->epoch).load(std::memory_order_acquire) >= e;
  }
  static bool arrived(const line* l, std::uint32_t e) {
    line* const from = const_cast<line*>(l);
    return word(from->word[0]).load(std::memory_order_acquire) >> 32 == e &&
           word(from->word[1]).load(std::memory_order_acquire) >> 32 == e;
  }

  // Whether a line is of e or a later number, and not of this e with this data.
  static bool differs(const line* l, std::uint32_t e, std::uint64_t data) {
    line* const from = const_cast<line*>(l);
    const std::uint64_t low = word(from->word[0]).load(std::memory_order_acquire);
    const std::uint64_t high = word(from->word[1]).load(std::memory_order_acquire);
    if (low >> 32 != high >> 32) return false;  // being written
    const auto later = static_cast<std::int32_t>(static_cast<std::uint32_t>(low >> 32) - e);
    return low >> 32 != 0 && (later > 0 || (later == 0 && (high << 32 | (low & 0xffffffffu)) != data));
  }

  void put(line* l, std::uint64_t data, std::uint32_t e) {
    // Release: a packet says that this rank is in this launch, and with it that its earlier ones, and their reads
    // of the slot that a peer may write next, are over (see launch boundaries in space.hpp). No launch orders them
    // here.
    staging_.settle();
    const std::uint64_t tag = static_cast<std::uint64_t>(e) << 32;
    word(l->word[0]).store(tag | (data & 0xffffffffu), std::memory_order_release);
    word(l->word[1]).store(tag | data >> 32, std::memory_order_release);
  }

  template <int N>
  bool get_all(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    for (int i = 0; i < N; ++i) {
      if (lines[i] == nullptr) continue;
      line* const l = const_cast<line*>(lines[i]);
      std::uint64_t low = 0, high = 0;
      const auto here = [&] {
        // Acquire: see put.
        low = word(l->word[0]).load(std::memory_order_acquire);
        high = word(l->word[1]).load(std::memory_order_acquire);
        return static_cast<std::uint32_t>(low >> 32) == e && static_cast<std::uint32_t>(high >> 32) == e;
      };
      if (!waits_.until(here, {w.of_line(i), e, epoch_}, low)) return false;
      data[i] = high << 32 | (low & 0xffffffffu);
    }
    return true;
  }

  static void will_write(const void* there) { fetch_for_writing(there); }
  static void will_read(const void* there) { fetch_for_reading(there); }
  static void has_written(const void* there) { move_towards_others(there); }
  static void let_go() { let_lines_leave(); }

  void refuse(waiting w, std::uint64_t wanted, std::uint64_t seen) {
    waits_.give_up(xylInvalidUsage, {w, wanted, found_in_}, seen);
  }

  static unit16 load16(const unit16* p) { return *p; }
  static unit16 load_peer16(const unit16* p) { return *p; }
  static void store16(unit16* p, unit16 v) { *p = v; }
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (fills_caches_)
      copy_past_caches(to, from, bytes);
    else if (bytes != 0)
      std::memcpy(to, from, bytes);
  }
  // Of the calls that follow: what this rank gets. Outputs that will not stay in the caches anyway need not be
  // brought there to be written: copies of 8 MB then took 290 us instead of 430, of 2 MB 73 instead of 55.
  static constexpr std::uint64_t cache_filling_bytes = 8 << 20;
  void expect_output(std::uint64_t bytes) { fills_caches_ = bytes >= cache_filling_bytes; }
  // To where another rank will read.
  void stage(std::byte* to, const std::byte* from, std::uint64_t bytes) { staging_.copy(to, from, bytes); }
  bool wants_stage() { return staging_.wants_copy(); }
  const host_stage& staging() const { return staging_; }

  // See proto/single_copy.hpp. In steps, between which it finds out that it should give up.
  bool take(std::byte* to, std::uint64_t address, std::uint64_t bytes, waiting w) {
    constexpr std::uint64_t step = 1 << 20;
    while (bytes > 0) {
      const ssize_t got =
          read_((*processes_)[static_cast<std::size_t>(w.peer)], to, address, std::min(step, bytes));
      // After the bytes were read: a rank that gives up poisons all others before it returns to its caller, who may
      // then change the buffer. (poison_word() loads with acquire order.)
      if (waits_.out_of_service(epoch_)) return false;
      if (got <= 0) {
        const int reason = got < 0 ? errno : EFAULT;
        if (reason == EINTR) continue;
        waits_.give_up(reason == ESRCH ? xylRemoteError : xylSystemError, {w, bytes, epoch_},
                       static_cast<std::uint64_t>(reason));
        return false;
      }
      to += got;
      address += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::uint64_t>(got);
    }
    return true;
  }

 private:
  host_wait& waits_;
  control_block& control_;
  host_stage staging_;
  bool fills_caches_ = false;
  epoch_t epoch_ = 0;
  epoch_t found_in_ = 0;  // of calls that differ
  const std::vector<std::int64_t>* processes_ = nullptr;
  process_reader read_ = nullptr;
};

static_assert(execution_space<host_space>);

}  // namespace xyl
