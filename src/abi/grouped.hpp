// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that a group records: inside one they are checked and kept for xylGroupEnd, outside they run at once.
#pragma once

#include "abi/guard.hpp"
#include "comm/group.hpp"

namespace xyl {

// An error in a call of an open group is the group's too.
template <class F>
xylResult_t guarded_in_group(xylComm_t comm, F f) noexcept {
  return guarded(comm, [&]() -> result {
    result r = f();
    if (!r.ok() && r.code() != xylInProgress && group::is_open()) group::note_error(r);
    return r;
  });
}

// A call on a communicator. check(c): what is wrong with the arguments; run(c): does it. Both are copied.
template <class Check, class Run>
xylResult_t grouped_call(xylComm_t comm, const char* function, Check check, Run run) noexcept {
  return guarded_in_group(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    XYL_TRY(check_in_use(comm, function));
    XYL_TRY(check(*c));
    if (!group::is_open()) return run(*c);
    group::record_call(c, [comm, function, run]() -> result {
      // Again: it may have been destroyed since.
      communicator* now = nullptr;
      result found = find_communicator(comm, function, now);
      result r = found.ok() ? run(*now) : std::move(found);
      if (!r.ok()) remember_error(comm, r.text());
      return r;
    });
    return {};
  });
}

}  // namespace xyl
