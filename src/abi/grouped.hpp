// SPDX-License-Identifier: BSD-3-Clause
//
// Calls that a group records: inside one they are checked and kept for xylGroupEnd, outside they run at once.
#pragma once

#include "abi/guard.hpp"
#include "comm/fused_arguments.hpp"
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
  if (r.what == collective::fused_all_reduce) return c.fused_all_reduce(*r.fused, r.stream);
  return r.what == collective::barrier ? c.barrier(r.stream) : c.collect(r);
}

inline constexpr group::hooks on_handles{
    [](xylComm_t comm, const char* function, const request& one) {
      return run_recorded(comm, function, [&](communicator& now) { return run_request(now, one); });
    },
    [](xylComm_t comm, const char* function, std::span<const request> all) {
      return run_recorded(comm, function, [&](communicator& now) { return now.transfer_group(all); });
    },
    [](xylComm_t comm, const char* function, bool before, std::span<const xylStream_t> named, xylStream_t& own) {
      return run_recorded(comm, function, [&](communicator& now) { return now.lend_stream(before, named, own); });
    },
    [](xylComm_t comm, const char* function, communicator*& now) { return find_communicator(comm, function, now); },
    [](xylComm_t comm, const result& failure) { remember_error(comm, failure.text()); }};

inline void record_request(xylComm_t comm, const char* function, const communicator& c, const request& r) {
  group::record_call(&c, r, c.works_on_device(r), {comm, function, &on_handles});
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
    if (is_transfer(r.what)) {
      record_request(comm, function, *c, r);
      return {};
    }
    request kept = r;
    XYL_TRY(c->keep_operation(kept));
    record_request(comm, function, *c, kept);
    return {};
  });
}

// The same for the structures of xylem_fused.h, which are read at once: they are the caller's again afterwards.
inline xylResult_t grouped_fused(xylComm_t comm, const char* function, const xylAllReduceRMSNormArgs_t* args,
                                 const xylMoeReduceArgs_t* moe, bool is_moe, xylStream_t stream) noexcept {
  return guarded_in_group(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    XYL_TRY(check_in_use(comm, function));
    fused_request r;
    if (result read = read_fused_arguments(args, moe, is_moe, r); !read.ok())
      return error(read.code(), "fused allreduce: %s", read.text().c_str());
    if (!group::is_open()) return c->fused_all_reduce(r, stream);
    request recorded{collective::fused_all_reduce};
    recorded.stream = stream;
    recorded.fused = std::make_shared<const fused_request>(r);
    record_request(comm, function, *c, recorded);
    return {};
  });
}

}  // namespace xyl
