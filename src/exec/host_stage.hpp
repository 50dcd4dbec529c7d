// SPDX-License-Identifier: BSD-3-Clause
//
// Copies to where another process will read them, by plain stores or by streaming ones, whichever is faster where
// the two happen to run. A plain store has to take the line from the core that read it last. Inside one last-level
// cache that is cheap, and the line stays near; from one such cache to another it is what takes nearly all of the
// time, and a store that goes to memory without asking for the line is several times faster. (Two ranks that write
// and then read 32 KB each, on cores of an AMD EPYC 9004: in one last-level cache 2.5 us with plain stores and 4.8
// with streaming ones, in two 18.5 and 4.0; of 256 KB 17 and 36, 139 and 24.) Processes move between cores, and
// virtual processors do so unseen, so each rank measures, by itself, for ever. Its peers need not know.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xyl {

// Decides from how long plain stores took.
class store_choice {
 public:
  // Shorter copies are not told of: what they cost is their first line.
  static constexpr std::uint64_t least_bytes = 1 << 10;
  // Times are looked at over so many bytes, and two such windows in a row must be slow: a writer can be preempted.
  static constexpr std::uint64_t window_bytes = 128 << 10;
  // Of a line, from where on streaming is faster: in one cache it took 2 to 5 ns plainly, in two 20 to 38. Reading
  // what is copied is part of it.
  static constexpr std::uint64_t slow_line_ns = 10, line_bytes = 64;
  // The first bytes of plain stores say nothing: their lines are new to the process, or had left all caches. Twice
  // what a rank's messages to one peer take turns over.
  static constexpr std::uint64_t grace_bytes = 4 << 20;
  // Plain stores are tried again after so many bytes, of which there are twice as many each time they were slow.
  static constexpr std::uint64_t first_stretch = 64 << 20, longest_stretch = 1 << 30;

  store_choice() = default;
  // As if plain stores had been slow: so many bytes are streamed before they are tried.
  static store_choice streaming_for(std::uint64_t bytes) {
    store_choice c;
    c.streams_ = true;
    c.left_ = bytes;
    return c;
  }

  bool streams() const { return streams_; }
  // Whether times would say something.
  bool looks() const { return !streams_ && grace_ == 0; }
  void stored(std::uint64_t bytes);
  void stored(std::uint64_t bytes, std::uint64_t ns);
  void streamed(std::uint64_t bytes);

 private:
  bool streams_ = false;
  unsigned slow_windows_ = 0;
  std::uint64_t grace_ = grace_bytes;
  std::uint64_t bytes_ = 0, ns_ = 0;       // of the window
  std::uint64_t left_ = 0;                 // of the stretch
  std::uint64_t stretch_ = first_stretch;  // the next one
};

// Like memcpy, by streaming stores, all of which are done when it returns.
void copy_past_caches(std::byte* to, const std::byte* from, std::uint64_t bytes);

class host_stage {
 public:
  explicit host_stage(const store_choice& begin = {}) : choice_(begin) {}

  // Like memcpy. What it wrote comes before a store with release order only after settle().
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes);

  // Whether a copy should be made by copy() although the processor could store to its destination on the way.
  bool wants_copy() { return choice_.streams() || (choice_.looks() && ++not_copied_ % sample == 0); }
  // Whether settle() has something to do.
  bool is_settled() const { return !is_unsettled_; }

  void settle() {
    if (is_unsettled_) settle_streamed_stores();
  }

 private:
  // Copies of less than sampled_bytes are timed once in so many: looking at the clock twice takes some 50 ns.
  static constexpr unsigned sample = 8;
  static constexpr std::uint64_t sampled_bytes = 16 << 10;

  void copy_plainly(std::byte* to, const std::byte* from, std::uint64_t bytes);
  void settle_streamed_stores();

  store_choice choice_;
  bool is_unsettled_ = false;
  unsigned not_timed_ = 0, not_copied_ = 0;
};

}  // namespace xyl
