// SPDX-License-Identifier: BSD-3-Clause
//
// The execution space of work in which no lane waits for another: its lanes run one after the other. Neither
// sync() nor waits exist here, so what wants them does not compile.
#pragma once

#include "proto/space.hpp"

namespace xyl::test {

struct lone_lane {
  unsigned at, of, in_block, of_blocks;
  unsigned lane() const { return at; }
  unsigned lanes() const { return of; }
  unsigned block() const { return in_block; }
  unsigned blocks() const { return of_blocks; }
  unit16 load16(const unit16* from) const { return *from; }
  void store16(unit16* to, unit16 u) const { *to = u; }
};

// f(space) for every lane of every block.
template <class F>
void lane_by_lane(unsigned blocks, unsigned lanes, F f) {
  for (unsigned b = 0; b < blocks; ++b)
    for (unsigned l = 0; l < lanes; ++l) {
      lone_lane space{l, lanes, b, blocks};
      f(space);
    }
}

}  // namespace xyl::test
