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

inline result run_request(communicator& c, const request& r) {
  return r.what == collective::barrier ? c.barrier(r.stream) : c.collect(r);
}

// A call that communicates. In a group it is checked now and run later.
inline xylResult_t grouped_request(xylComm_t comm, const char* function, const request& r) noexcept {
  return guarded_in_group(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    XYL_TRY(check_in_use(comm, function));
    if (!group::is_open()) return run_request(*c, r);
    // In a group a rank may send to itself: as if by nobody in particular.
    if (r.what != collective::barrier)
      XYL_TRY(check_arguments(r, is_transfer(r.what) ? -1 : c->rank(), c->ranks()));
    request kept = r;
    XYL_TRY(c->keep_operation(kept));
    group::record_call(
        c, kept, c->works_on_device(kept),
        {[=](const request& one) {
           return run_recorded(comm, function, [&](communicator& now) { return run_request(now, one); });
         },
         [=](std::span<const request> all) {
           return run_recorded(comm, function, [&](communicator& now) { return now.transfer_group(all); });
         },
         [=](bool before, std::span<const xylStream_t> named, xylStream_t& own) {
           return run_recorded(comm, function,
                               [&](communicator& now) { return now.lend_stream(before, named, own); });
         }});
    return {};
  });
}

}  // namespace xyl
