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

// A recorded call, when its time has come: on the communicator that the handle stands for then, if it still does.
template <class Run>
result run_recorded(xylComm_t comm, const char* function, Run run) {
  communicator* now = nullptr;
  result found = find_communicator(comm, function, now);
  result r = found.ok() ? run(*now) : std::move(found);
  if (!r.ok()) remember_error(comm, r.text());
  return r;
}

// A call on a communicator that takes some: run(c) does it, and is copied.
template <class Run>
xylResult_t grouped_call(xylComm_t comm, const char* function, Run run) noexcept {
  return guarded_in_group(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    XYL_TRY(check_in_use(comm, function));
    if (!group::is_open()) return run(*c);
    group::record_call(c, [=] { return run_recorded(comm, function, run); });
    return {};
  });
}

// The same for a request, which is checked now.
inline xylResult_t grouped_request(xylComm_t comm, const char* function, const request& r) noexcept {
  return guarded_in_group(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    XYL_TRY(check_in_use(comm, function));
    if (!group::is_open()) return c->collect(r);
    if (!is_transfer(r.what)) {
      XYL_TRY(check_arguments(r, c->rank(), c->ranks()));
      group::record_call(
          c, [=] { return run_recorded(comm, function, [&](communicator& now) { return now.collect(r); }); });
      return {};
    }
    // In a group a rank may send to itself: as if by nobody in particular.
    XYL_TRY(check_arguments(r, -1, c->ranks()));
    group::record_transfer(c, r, [=](std::span<const request> all) {
      return run_recorded(comm, function, [&](communicator& now) { return now.transfer_group(all); });
    });
    return {};
  });
}

}  // namespace xyl
