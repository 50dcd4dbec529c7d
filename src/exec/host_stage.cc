// SPDX-License-Identifier: BSD-3-Clause
#include "exec/host_stage.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace xyl {

namespace {

#if defined(__x86_64__)
constexpr bool can_stream = true;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Sanitizers do not see streaming stores.
void stream(std::byte* to, const std::byte* from, std::uint64_t bytes) { std::memcpy(to, from, bytes); }
#else
constexpr std::uint64_t word_bytes = sizeof(__m128i);

// Whole lines at a time, so that none is written in parts.
void stream(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t before =
      std::min(bytes, (0 - reinterpret_cast<std::uintptr_t>(to)) % store_choice::line_bytes);
  std::memcpy(to, from, before);
  const std::uint64_t end = before + (bytes - before) / store_choice::line_bytes * store_choice::line_bytes;
  for (std::uint64_t at = before; at < end; at += store_choice::line_bytes) {
    __m128i line[store_choice::line_bytes / word_bytes];
    for (unsigned i = 0; i < store_choice::line_bytes / word_bytes; ++i)
      line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    for (unsigned i = 0; i < store_choice::line_bytes / word_bytes; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, line[i]);
  }
  std::memcpy(to + end, from + end, bytes - end);
}
#endif
#else
constexpr bool can_stream = false;

void stream(std::byte* to, const std::byte* from, std::uint64_t bytes) { std::memcpy(to, from, bytes); }
#endif

void order_streamed_stores() {
#if defined(__x86_64__)
  // Streaming stores are outside the order of all others: a flag could be seen before them.
  _mm_sfence();
#endif
}

std::uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

}  // namespace

void store_choice::stored(std::uint64_t bytes) { grace_ -= std::min(grace_, bytes); }

void store_choice::stored(std::uint64_t bytes, std::uint64_t ns) {
  bytes_ += bytes;
  ns_ += ns;
  if (bytes_ < window_bytes) return;
  const bool was_slow = ns_ * line_bytes > slow_line_ns * bytes_;
  bytes_ = ns_ = 0;
  if (!was_slow) {
    slow_windows_ = 0;
    stretch_ = first_stretch;
  } else if (++slow_windows_ == 2) {
    slow_windows_ = 0;
    streams_ = true;
    left_ = stretch_;
    stretch_ = std::min(2 * stretch_, longest_stretch);
  }
}

void store_choice::streamed(std::uint64_t bytes) {
  left_ -= std::min(left_, bytes);
  if (left_ > 0) return;
  streams_ = false;
  grace_ = grace_bytes;
}

void copy_past_caches(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  stream(to, from, bytes);
  order_streamed_stores();
}

void host_stage::copy(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  if (!can_stream || bytes < store_choice::least_bytes) {
    std::memcpy(to, from, bytes);
  } else if (choice_.streams()) {
    stream(to, from, bytes);
    is_unsettled_ = true;
    choice_.streamed(bytes);
  } else {
    copy_plainly(to, from, bytes);
  }
}

void host_stage::copy_plainly(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (!choice_.looks() || (bytes < sampled_bytes && ++not_timed_ % sample != 0)) {
    std::memcpy(to, from, bytes);
    choice_.stored(bytes);
    return;
  }
  const std::uint64_t begin = now_ns();
  std::memcpy(to, from, bytes);
  choice_.stored(bytes, now_ns() - begin);
}

void host_stage::settle_streamed_stores() {
  is_unsettled_ = false;
  order_streamed_stores();
}

}  // namespace xyl
