// SPDX-License-Identifier: BSD-3-Clause
//
// The life of a thread that serves descriptors in turns: a wait, and what came of it.
#pragma once

#include <unistd.h>

#include <new>

namespace xyl {

// Until turn() returns false. One that finds no memory is taken again later: what has happened is still to be seen in
// the descriptors.
template <class Turn>
void take_turns(int rest_ms, Turn turn) {
  for (;;) {
    try {
      while (turn()) continue;
      return;
    } catch (const std::bad_alloc&) {
      ::usleep(static_cast<useconds_t>(rest_ms) * 1000);
    }
  }
}

}  // namespace xyl
