// SPDX-License-Identifier: BSD-3-Clause
//
// Calls between xylGroupStart and xylGroupEnd. They are recorded by the calling thread and run when the outermost
// group ends: first what makes communicators, at the same time unless from one and the same; then the calls of each
// rank, in their order, and its sends and receives, all together; the ranks at the same time. So a thread can drive
// several ranks, sends and receives may come in any order, and a rank's calls meet other ranks' in any order of
// communicators. An error while a group is open ends it without running anything.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "comm/request.hpp"

namespace xyl {
class communicator;
}

namespace xyl::group {

// Of the calling thread.
bool is_open();
void start();

using step = std::function<result()>;
// Records something that makes a communicator. What has the same `from`, a rank of another one, keeps its order;
// null: from nothing.
void record_making(const void* from, step make);
// What is recorded of a rank's calls. When a thread drives several ranks, none of their work on a device may sit in
// a queue behind another's, which waits for it: it is done jointly where that is possible (see comm/joint.hpp),
// else each rank's goes to a stream of its own. lend() makes that stream come after those that the calls name
// (before = true), and those after it; it is called on the thread that ends the group, as what some handles of
// streams mean depends on the thread.
struct hooks {
  result (*run)(xylComm_t comm, const char* function, const request& r);                         // no transfer
  result (*transfer)(xylComm_t comm, const char* function, std::span<const request> transfers);  // all of them
  result (*lend)(xylComm_t comm, const char* function, bool before, std::span<const xylStream_t> named,
                 xylStream_t& own);
  result (*find)(xylComm_t comm, const char* function, communicator*& now);  // if it is still there
  void (*remember)(xylComm_t comm, const result& failure);  // of what was done with other ranks' calls
};
// Who recorded a rank's first call: its handle, and the function that errors name.
struct caller {
  xylComm_t comm;
  const char* function;
  const hooks* how;
};
// Records a call of a rank; `rank` is anything that tells ranks apart. on_device: it works on a stream.
void record_call(const void* rank, const request& r, bool on_device, const caller& by);
// Remembers the first error; end() returns it.
void note_error(const result& r);

// Ends the innermost group. The outermost one runs what was recorded, and returns the first error; the texts of
// others are their communicators'. xylInProgress if something was begun that end() does not wait for.
result end();

}  // namespace xyl::group
