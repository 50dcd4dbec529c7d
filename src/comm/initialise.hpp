// SPDX-License-Identifier: BSD-3-Clause
//
// Communicators of ranks that have nothing in common but a unique id, or the process they are in.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.hpp"
#include "os/interruption.hpp"
#include "peer/rendezvous_id.hpp"

namespace xyl {

// Begins to serve a new id in this process.
result make_unique_id(unique_id_bytes& out);

// Whether the bytes are an id, as far as that can be told without asking anybody.
result check_unique_id(const unique_id_bytes& id);

// Collective over the ranks that have the id. device: as for communicator::create. stop: ends the wait for the
// others; may be null.
result initialise_rank(const unique_id_bytes& id, int ranks, int rank, std::optional<int> device,
                       const interruption* stop, std::unique_ptr<communicator>& out);

// All ranks of a communicator, in this process: rank i on devices[i].
result initialise_all(const std::vector<int>& devices, std::vector<std::unique_ptr<communicator>>& out);

}  // namespace xyl
