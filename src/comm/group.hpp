// SPDX-License-Identifier: BSD-3-Clause
//
// Calls between xylGroupStart and xylGroupEnd. They are recorded by the calling thread and run when the outermost
// group ends: first what makes communicators, at the same time unless from one and the same; then the calls of each
// rank, in their order, and its sends and receives, all together; the ranks at the same time. So a thread can drive
// several ranks, sends and receives may come in any order, and a rank's calls meet
// other ranks' in any order of communicators. An error while a group is open ends it without running anything.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "comm/request.hpp"

namespace xyl::group {

// Of the calling thread.
bool is_open();
void start();

using step = std::function<result()>;
// Records something that makes a communicator. What has the same `from`, a rank of another one, keeps its order;
// null: from nothing.
void record_making(const void* from, step make);
// Records a call of a rank; `rank` is anything that tells ranks apart.
void record_call(const void* rank, step call);
// Records a send or receive of a rank. All of a rank's run together, after its other calls; `run` of the first is
// used.
using transfers_step = std::function<result(std::span<const request>)>;
void record_transfer(const void* rank, const request& r, transfers_step run);
// Remembers the first error; end() returns it.
void note_error(const result& r);

// Ends the innermost group. The outermost one runs what was recorded, and returns the first error; the texts of
// others are their communicators'. xylInProgress if something was begun that end() does not wait for.
result end();

}  // namespace xyl::group
