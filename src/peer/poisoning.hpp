// SPDX-License-Identifier: BSD-3-Clause
//
// Writing a reason to give up into a rank's control block, from whichever process or thread found it.
#pragma once

#include <atomic>

#include "proto/layout.hpp"

namespace xyl {

// The first reason stays, with one exception: that the calls differ may not concern a rank that is one call behind
// (see poison), so any other reason replaces it.
inline void poison_control(control_block& control, std::uint64_t reason) {
  const std::atomic_ref word(control.poisoned.word);
  // relaxed: the value found only decides whether to try; nothing is read on its strength.
  std::uint64_t found = word.load(std::memory_order_relaxed);
  while (found == 0 ||
         (poison::code(found) == poison::calls_differ && poison::code(reason) != poison::calls_differ)) {
    // release: who finds the word with an acquire load also finds what this thread noted before (a give_up_record,
    // a peer's death or life).
    if (word.compare_exchange_weak(found, reason, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

}  // namespace xyl
