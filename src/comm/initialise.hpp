// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of ranks that have nothing in common but a unique id.
#pragma once

#include <memory>

#include "comm/communicator.hpp"
#include "os/interruption.hpp"
#include "peer/rendezvous_id.hpp"

namespace xyl {

// Begins to serve a new id in this process.
result make_unique_id(unique_id_bytes& out);

// Collective over the ranks that have the id. stop: ends the wait for the others; may be null.
result initialise_rank(const unique_id_bytes& id, int ranks, int rank, const interruption* stop,
                       std::unique_ptr<communicator>& out);

}  // namespace xyl
