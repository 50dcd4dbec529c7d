// SPDX-License-Identifier: BSD-3-Clause
//
// Hints to a processor about lines that two cores pass to each other. They change nothing but times, and are
// nothing on processors that do not know them, and they order nothing (on x86-64 they are encoded as no-operations
// of older ones). Measured between two cores of one socket that exchange a line each, with 60 ns of other work per
// round: 200 ns plainly, 190 with the next line fetched for writing, 115 with all three.
#pragma once

#include <cstdint>

namespace xyl {

// This core will write there soon: takes the line away from who has it. The builtin only reads unless the compiler
// was told of a processor that can do more.
inline void fetch_for_writing(const void* there) {
#if defined(__x86_64__)
  asm("prefetchw %0" : : "m"(*static_cast<const char*>(there)));
#else
  __builtin_prefetch(there, 1);
#endif
}

// Functions that do nothing but the builtin are taken for functions without effect, and calls of them left out.
inline void fetch_for_reading(const void* there) {
#if defined(__x86_64__)
  asm("prefetcht0 %0" : : "m"(*static_cast<const char*>(there)));
#else
  __builtin_prefetch(there, 0);
#endif
}

// This core has written there and another will read: moves the line to where both are as near.
inline void move_towards_others([[maybe_unused]] const void* there) {
#if defined(__x86_64__)
  asm("cldemote %0" : : "m"(*static_cast<const char*>(there)));
#endif
}

// About as long as a line takes to leave a core. Who looks for an answer meanwhile only takes the line of the
// answer away from who is writing it.
inline void let_lines_leave() {
#if defined(__x86_64__)
  constexpr std::uint64_t cycles = 60;
  const std::uint64_t begin = __builtin_ia32_rdtsc();
  while (__builtin_ia32_rdtsc() - begin < cycles) {
  }
#endif
}

}  // namespace xyl
