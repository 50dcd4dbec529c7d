// SPDX-License-Identifier: BSD-3-Clause
//
// An execution space whose ranks, blocks and lanes are threads of one process, so that ThreadSanitizer sees every
// access. Flags and packets are C++ atomics with exactly the orders that proto/space.hpp promises; bulk data is
// plain, so that a missing order is a race. Jitter (seeded, per lane) moves the lanes against each other. Relies on
// the caller to end all lanes of one launch of a rank before the next launch of that rank begins, as a stream does.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "proto/space.hpp"
#include "spaces/lane_barrier.hpp"
#include "xylem/xylem.h"

namespace xyl {

// What the lanes of one block share.
struct thread_block {
  explicit thread_block(unsigned lanes) : barrier(lanes), votes(lanes) {}
  lane_barrier barrier;
  std::vector<char> votes;  // of all(); one per lane
  // See proto/grouped_packet.hpp; groups of one lane, and as many ranks as any test has.
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(2 * 16);
  epoch_t epoch = 0;                                                           // of begin()
  bool healthy = true;                                                         // of begin()
  std::vector<std::uint32_t> scratch = std::vector<std::uint32_t>(16384 / 2);  // see row_scratch() in proto/row.hpp
};

// What the blocks of one rank share. Workspaces are those of all ranks, in rank order.
struct thread_rank {
  thread_rank(int rank, std::vector<std::byte*> workspaces, unsigned max_blocks, unsigned lanes,
              std::chrono::nanoseconds deadline)
      : rank(rank), workspaces(std::move(workspaces)), lanes(lanes), deadline(deadline) {
    for (unsigned b = 0; b < max_blocks; ++b) blocks.push_back(std::make_unique<thread_block>(lanes));
  }
  control_block& control(int of) const { return *reinterpret_cast<control_block*>(workspaces[of]); }

  const int rank;
  const std::vector<std::byte*> workspaces;
  const unsigned lanes;
  std::chrono::nanoseconds deadline;  // of each wait; changed between launches only
  std::atomic<bool> aborted{false};
  std::vector<std::unique_ptr<thread_block>> blocks;
  // Blocks that have begun, ever; how many had when the current call began; and that have ended, ever. They wrap
  // soon.
  std::uint32_t entered = first_count, base = first_count, left = first_count;
  static constexpr auto first_count = static_cast<std::uint32_t>(-3);
};

class thread_space {
 public:
  // blocks: of this launch, the first so many of the rank's.
  thread_space(thread_rank& owner, unsigned block, unsigned blocks, unsigned lane, std::uint64_t seed)
      : owner_(owner),
        shared_(*owner.blocks[block]),
        block_(block),
        blocks_(blocks),
        lane_(lane),
        random_(seed | 1) {}

  unsigned lane() const { return lane_; }
  unsigned lanes() const { return owner_.lanes; }
  unsigned block() const { return block_; }
  unsigned blocks() const { return blocks_; }
  epoch_t epoch() const { return shared_.epoch; }

  bool begin() {
    jitter();
    if (lane_ == 0) {
      auto& call = owner_.control(owner_.rank).call;
      shared_.epoch = next_epoch(of(call.epoch).load(std::memory_order_relaxed));
      const std::uint32_t base = of(owner_.base).load(std::memory_order_relaxed);
      // Release: this block has read `epoch` and `base` before its ticket counts. Acquire: whoever draws the last
      // ticket stores them after all have read. The next launch is ordered behind this one by the caller.
      const std::uint32_t ticket = of(owner_.entered).fetch_add(1, std::memory_order_acq_rel);
      if (ticket + 1 - base == blocks_) {
        of(call.epoch).store(shared_.epoch, std::memory_order_relaxed);
        of(owner_.base).store(ticket + 1, std::memory_order_relaxed);
      }
      const std::uint64_t word = poison_word();
      shared_.healthy = word == 0;
      if (!shared_.healthy) fill_record(poison::code(word), waiting{poison::culprit(word), phase::none}, 0, 0);
    }
    shared_.barrier.arrive_and_wait();
    return shared_.healthy;
  }

  bool begin_pair() {
    jitter();
    if (lane_ == 0) {
      shared_.epoch = poison::epoch_of_pairs(
          next_epoch(of(owner_.control(owner_.rank).call.epoch).load(std::memory_order_relaxed)));
      shared_.healthy = poison_word() == 0;
    }
    shared_.barrier.arrive_and_wait();
    return shared_.healthy;
  }

  void leave() {
    jitter();
    shared_.barrier.arrive_and_wait();
    // Relaxed: a count for diagnosis; the end of the launch orders everything.
    if (lane_ == 0) of(owner_.left).fetch_add(1, std::memory_order_relaxed);
  }

  void sync() {
    jitter();
    shared_.barrier.arrive_and_wait();
  }

  bool all(bool mine) {
    jitter();
    shared_.votes[lane_] = mine;
    shared_.barrier.arrive_and_wait();
    bool verdict = true;
    for (const char vote : shared_.votes) verdict = verdict && vote;
    shared_.barrier.arrive_and_wait();  // nobody votes again before all have counted
    return verdict;
  }

  // Release: what this lane wrote, and what its block wrote before a sync(), is seen by whoever acquires the flag.
  void post(flag* f, epoch_t e) { post(f, e, std::memory_order_release); }

  // Acquire: the other side of post().
  bool await(const flag* f, epoch_t e, waiting w) { return await(f, e, w, std::memory_order_acquire); }

  // Release and acquire stand for the launch boundary (see space.hpp): what the sender's earlier launches read
  // comes before what the receiver's later launches write.
  void put(line* to, std::uint64_t data, std::uint32_t e) { put(to, data, e, std::memory_order_release); }

  template <int N>
  bool get_all(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    return get_all(lines, e, data, w, std::memory_order_acquire);
  }

  // Release and acquire within the launch.
  void announce(line* to, std::uint64_t data, std::uint32_t e) { put(to, data, e, std::memory_order_release); }
  template <int N>
  bool hear(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w) {
    return get_all(lines, e, data, w, std::memory_order_acquire);
  }

  // Nothing makes a line whole here but its number: released behind the data, and acquired before it is read.
  static constexpr unsigned pack_lanes = 1;
  template <int N>
  void put_packs(wide_pack* const (&to)[N], const unit16 (&units)[wide_pack::units], epoch_t e) {
    for (wide_pack* const pack : to)
      if (pack) {
        jitter();
        write_data(*pack, units);
        for (wide_line& l : pack->line) {
          jitter();
          of(l.word[wide_pack::number_word]).store(e, std::memory_order_release);
        }
      }
  }
  template <int N>
  bool get_packs(const wide_pack* const (&from)[N], epoch_t e, unit16 (&units)[N][wide_pack::units], waiting w) {
    jitter();
    waiting for_whom = w;
    epoch_t seen = 0;
    const bool good = wait([&] {
      for (int i = 0; i < N; ++i)
        for (int half = 0; from[i] && half < 2; ++half) {
          auto& number = const_cast<wide_pack*>(from[i])->line[half].word[wide_pack::number_word];
          seen = of(number).load(std::memory_order_acquire);
          for_whom = w.of_line(i);
          if (seen != e) return false;
        }
      return true;
    });
    if (!good) {
      give_up(for_whom, e, seen);
      return false;
    }
    for (int i = 0; i < N; ++i)
      if (from[i]) read_data(*from[i], units[i]);
    return true;
  }

  // Likewise.
  static constexpr unsigned sheet_lanes = 1;
  void put_line(unit16* to, const unit16& whole) {
    jitter();
    copy_words(to->word, whole.word);
    jitter();
    of(to->word[3]).store(whole.word[3], std::memory_order_release);
  }
  template <int N>
  bool get_lines(const unit16* const (&lines)[N], std::uint32_t e, unit16 (&got)[N], waiting w) {
    jitter();
    waiting for_whom = w;
    std::uint32_t seen = 0;
    const bool good = wait([&] {
      for (int i = 0; i < N; ++i) {
        if (!lines[i]) continue;
        seen = of(const_cast<unit16*>(lines[i])->word[3]).load(std::memory_order_acquire);
        for_whom = w.of_line(i);
        if (seen != e) return false;
      }
      return true;
    });
    if (!good) {
      give_up(for_whom, e, seen);
      return false;
    }
    for (int i = 0; i < N; ++i)
      if (lines[i]) copy_words(got[i].word, lines[i]->word);
    return true;
  }

  void refuse(waiting w, std::uint64_t wanted, std::uint64_t seen) {
    fill_record(xylInvalidUsage, w, wanted, seen);
    poison_all(poison::pack(xylInvalidUsage, w.peer, shared_.epoch));
  }

  unsigned lanes_of_group(int) const { return 1; }
  std::uint64_t* shared_words() { return shared_.words.data(); }
  std::uint32_t* row_scratch() { return shared_.scratch.data(); }

  unit16 load16(const unit16* from) const { return *from; }
  unit16 load_peer16(const unit16* from) const { return *from; }
  void store16(unit16* to, unit16 value) {
    jitter();
    *to = value;
  }

  // See proto/single_copy.hpp. Ranks are threads of one process: a peer's address is good here as well.
  bool take(std::byte* to, std::uint64_t address, std::uint64_t bytes, waiting w) {
    jitter();
    if (address == 0) {
      refuse(w, bytes, 0);
      return false;
    }
    std::memcpy(to, reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address)), bytes);
    jitter();
    return true;
  }

 protected:
  template <class T>
  static std::atomic_ref<T> of(T& object) {
    return std::atomic_ref<T>(object);
  }

  // Word by word: what compilers make of a memcpy of 12 bytes is hidden from ThreadSanitizer.
  static void copy_words(std::uint32_t* to, const std::uint32_t* from) {
    for (int k = 0; k < 3; ++k) to[k] = from[k];
  }
  static void write_data(wide_pack& pack, const unit16 (&units)[wide_pack::units]) {
    for (unsigned u = 0; u < wide_pack::units; ++u) {
      if (u == wide_pack::split_unit) continue;
      std::memcpy(&pack.line[wide_pack::line_of(u)].word[wide_pack::word_of(u)], &units[u], sizeof units[u]);
    }
    for (int half = 0; half < 2; ++half)
      std::memcpy(&pack.line[half].word[wide_pack::split_word], &units[wide_pack::split_unit].word[2 * half], 8);
  }
  static void read_data(const wide_pack& pack, unit16 (&units)[wide_pack::units]) {
    for (unsigned u = 0; u < wide_pack::units; ++u) {
      if (u == wide_pack::split_unit) continue;
      std::memcpy(&units[u], &pack.line[wide_pack::line_of(u)].word[wide_pack::word_of(u)], sizeof units[u]);
    }
    for (int half = 0; half < 2; ++half)
      std::memcpy(&units[wide_pack::split_unit].word[2 * half], &pack.line[half].word[wide_pack::split_word], 8);
  }

  void put(line* to, std::uint64_t data, std::uint32_t e, std::memory_order order) {
    jitter();
    const std::uint64_t high = static_cast<std::uint64_t>(e) << 32;
    of(to->word[0]).store(high | (data & 0xffffffffu), order);
    jitter();
    of(to->word[1]).store(high | data >> 32, order);
  }

  template <int N>
  bool get_all(const line* const (&lines)[N], std::uint32_t e, std::uint64_t (&data)[N], waiting w,
               std::memory_order order) {
    jitter();
    std::uint64_t words[N][2];
    waiting for_whom = w;
    std::uint32_t seen = 0;
    const bool good = wait([&] {
      for (int i = 0; i < N; ++i)
        for (int half = 0; lines[i] && half < 2; ++half)
          words[i][half] = of(const_cast<line*>(lines[i])->word[half]).load(order);
      for (int i = 0; i < N; ++i)
        for (int half = 0; lines[i] && half < 2; ++half)
          if (words[i][half] >> 32 != e) {
            for_whom = w.of_line(i);
            seen = static_cast<std::uint32_t>(words[i][half] >> 32);
            return false;
          }
      return true;
    });
    if (!good) {
      give_up(for_whom, e, seen);
      return false;
    }
    for (int i = 0; i < N; ++i)
      if (lines[i]) data[i] = (words[i][0] & 0xffffffffu) | words[i][1] << 32;
    return true;
  }

  void post(flag* f, epoch_t e, std::memory_order order) {
    jitter();
    of(f->epoch).store(e, order);
  }

  bool await(const flag* f, epoch_t e, waiting w, std::memory_order order) {
    jitter();
    epoch_t seen = 0;
    if (wait([&] { return (seen = of(const_cast<flag*>(f)->epoch).load(order)) >= e; })) return true;
    give_up(w, e, seen);
    return false;
  }

  void jitter() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    if (random_ % 16 == 0)
      sched_yield();
    else if (random_ % 16 < 4)
      for (std::uint64_t spin = random_ >> 32 & 0xff; spin; --spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
  }

 private:
  // Poison that concerns this call, or 0. Relaxed: the word itself says all there is to say.
  std::uint64_t poison_word() const {
    const std::uint64_t word = of(owner_.control(owner_.rank).poisoned.word).load(std::memory_order_relaxed);
    return poison::concerns(word, shared_.epoch) ? word : 0;
  }

  template <class Ready>
  bool wait(Ready ready) {
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned polls = 1;; ++polls) {
      if (ready()) return true;
      if (poison_word() || owner_.aborted.load(std::memory_order_relaxed)) return false;
      if (polls % 64 == 0 && std::chrono::steady_clock::now() - begin > owner_.deadline) return false;
      if (polls % 8 == 0) sched_yield();
    }
  }

  // Called when wait() has failed. Somebody's poison is passed on as it is; else this rank is the first to give up.
  void give_up(waiting w, std::uint64_t wanted, std::uint64_t seen) {
    if (const std::uint64_t word = poison_word()) {
      fill_record(poison::code(word), w, wanted, seen);
    } else if (owner_.aborted.load(std::memory_order_relaxed)) {
      fill_record(xylRemoteError, w, wanted, seen);
      poison_all(poison::pack(xylRemoteError, owner_.rank));
    } else {
      fill_record(xylTimeout, w, wanted, seen);
      poison_all(poison::pack(xylTimeout, w.peer));
    }
  }

  void fill_record(int code, waiting w, std::uint64_t wanted, std::uint64_t seen) {
    give_up_record& record = owner_.control(owner_.rank).gave_up.record;
    std::uint32_t empty = 0;
    // Relaxed: only claims the record; nothing is read from it.
    if (!of(record.state).compare_exchange_strong(empty, 1, std::memory_order_relaxed)) return;
    record.code = code;
    record.peer = w.peer;
    record.waited_in = w.what;
    record.wanted = wanted;
    record.seen = seen;
    record.epoch = shared_.epoch;
    of(record.state).store(2, std::memory_order_release);  // whoever reads 2 sees the fields
  }

  // Whoever is first decides what a rank's word says.
  void poison_all(std::uint64_t word) {
    for (std::size_t p = 0; p < owner_.workspaces.size(); ++p) {
      std::uint64_t healthy = 0;
      of(owner_.control(static_cast<int>(p)).poisoned.word)
          .compare_exchange_strong(healthy, word, std::memory_order_relaxed);
    }
  }

  thread_rank& owner_;
  thread_block& shared_;
  const unsigned block_, blocks_, lane_;
  std::uint64_t random_;
};
static_assert(execution_space<thread_space>);

}  // namespace xyl
