// SPDX-License-Identifier: BSD-3-Clause
//
// Calls between xylGroupStart and xylGroupEnd. They are recorded by the calling thread and run when the outermost
// group ends: first what makes communicators, at the same time unless from one and the same; then the calls of each
// rank, in their order, the ranks at the same time. So a thread can drive several ranks, and a rank's calls meet
// other ranks' in any order of communicators. An error while a group is open ends it without running anything.
#pragma once

#include <functional>
#include <string>

#include "base/result.hpp"

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
// Remembers the first error; end() returns it.
void note_error(const result& r);

// Ends the innermost group. The outermost one runs what was recorded, and returns the first error; the texts of
// others are their communicators'. xylInProgress if something was begun that end() does not wait for.
result end();

}  // namespace xyl::group
