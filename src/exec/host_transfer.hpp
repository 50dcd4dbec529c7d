// SPDX-License-Identifier: BSD-3-Clause
//
// Sends and receives of this rank that go on together, on host memory: whichever can move a chunk moves it, so
// their order here does not matter to peers that have another. Those of one peer and direction keep their order,
// which is how the peer tells them apart.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exec/host_packet.hpp"
#include "exec/host_space.hpp"
#include "proto/transfer.hpp"

namespace xyl {

struct host_transfer {
  transfer what;
  call_record record;  // for whoever gives up
};

class host_transfers {
 public:
  // What fits into a slot that is free goes at once, with nothing written down about it; good becomes false if this
  // rank gave up. Only while there is nothing before it that has not gone, and something left to do after it.
  static bool goes_at_once(host_space& s, const host_call& c, const transfer& what, bool& good);
  // Returns when all are done; false if one gave up. At least two; those that send come first, so that what peers
  // wait for is on its way before this rank waits. current: where waits.describe_calls_by() points, kept to what
  // is being done.
  bool run(host_space& s, host_wait& waits, const host_call& c, std::span<const host_transfer> all,
           call_record& current);

 private:
  struct running;

  // Empty between runs; kept, so that small groups take no memory from the heap.
  std::vector<std::optional<transfer_part<host_call>>> parts_;
  std::vector<std::size_t> waiting_, active_;
};

}  // namespace xyl
