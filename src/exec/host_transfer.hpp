// SPDX-License-Identifier: BSD-3-Clause
//
// Sends and receives of this rank that go on together, on host memory: whichever can move a chunk moves it, so
// their order here does not matter to peers that have another. Those of one peer and direction keep their order,
// which is how the peer tells them apart.
#pragma once

#include <vector>

#include "exec/host_packet.hpp"
#include "exec/host_space.hpp"
#include "proto/transfer.hpp"

namespace xyl {

struct host_transfer {
  transfer what;
  call_record record;  // for whoever gives up
};

// Returns when all are done; false if one gave up. current: where waits.describe_calls_by() points, kept to what is
// being done.
bool run_host_transfers(host_space& s, host_wait& waits, const host_call& c, const std::vector<host_transfer>& all,
                        call_record& current);

}  // namespace xyl
