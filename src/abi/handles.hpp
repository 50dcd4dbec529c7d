// SPDX-License-Identifier: BSD-3-Clause
//
// The handles that users hold. They are numbers dressed as pointers, none of which is given out twice, and stand
// for places of a static table: a wrong, stale or destroyed handle is told from a right one without touching memory
// that may not exist, also after its place was taken by another communicator. Using a handle while another thread
// destroys it is the caller's race, as with any handle.
#pragma once

#include <memory>
#include <string>

#include "comm/member.hpp"

namespace xyl {

// A place holding `m`; nullptr if all are taken.
xylComm_t publish_handle(std::unique_ptr<member> m);
// What the handle stands for; nullptr if it is not a live communicator.
member* resolve_handle(xylComm_t handle);
// Whether the handle was made by the process that forked this one: its threads, sockets and place in the ranks'
// order are the parent's.
bool is_inherited(xylComm_t live_handle);
// Frees the place and returns what it held; nullptr as above.
std::unique_ptr<member> withdraw_handle(xylComm_t handle);

// The last error of a live handle, or of this thread for a null, wrong or inherited handle.
void remember_error(xylComm_t handle, const std::string& text);
std::string recall_error(xylComm_t handle);

}  // namespace xyl
