// SPDX-License-Identifier: BSD-3-Clause
//
// Where the memory of destroyed communicators goes. A peer may still have this rank's device memory mapped, so it
// is kept until every peer has departed or died; destroying waits for nobody. What is kept is looked at again
// whenever a communicator is made or destroyed in this process, and ends with the process.
#pragma once

#include <memory>

#include "exec/device_side.hpp"
#include "peer/peer_group.hpp"

namespace xyl {

// `device` may be null; if not, it is disconnected. Called by destructors, so a lack of memory must not stop it.
void retire(std::unique_ptr<peer_group> peers, std::unique_ptr<device_side> device) noexcept;

// Frees what nobody needs any more. Allocates nothing but, the first time, the list: creating a communicator calls
// it.
void release_retired();

}  // namespace xyl
