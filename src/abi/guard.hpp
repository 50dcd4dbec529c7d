// SPDX-License-Identifier: BSD-3-Clause
//
// What every entry point runs in. One guard per call: it turns a result, or whatever the standard library threw,
// into a code, and keeps the sentence for xylGetLastError.
#pragma once

#include <exception>
#include <new>

#include "abi/handles.hpp"
#include "base/log.hpp"

namespace xyl {

inline xylResult_t finish(xylComm_t comm, const result& r) {
  // Neither is an error with a sentence.
  if (r.ok() || r.code() == xylInProgress) return r.code();
  remember_error(comm, r.text());
  log_line(log_level::info, no_rank, "%s", r.text().c_str());
  return r.code();
}

template <class F>
xylResult_t guarded(xylComm_t comm, F f) noexcept {
  try {
    return finish(comm, f());
  } catch (const std::bad_alloc&) {
    try {
      return finish(comm, error(xylSystemError, "out of memory"));
    } catch (...) {
      return xylSystemError;
    }
  } catch (const std::exception& e) {
    try {
      return finish(comm, error(xylInternalError, "unexpected: %s", e.what()));
    } catch (...) {
      return xylInternalError;
    }
  } catch (...) {
    // Nothing of ours: the caller's allgather can throw anything.
    try {
      return finish(comm, error(xylInternalError,
                                "an exception that is not a std::exception came, as from the "
                                "caller's allgather"));
    } catch (...) {
      return xylInternalError;
    }
  }
}

// What is behind a handle that may be used here.
inline result find_member(xylComm_t comm, const char* function, member*& out) {
  out = resolve_handle(comm);
  if (out == nullptr)
    return error(xylInvalidArgument, "%s: comm is %s", function,
                 comm == nullptr ? "NULL" : "not a communicator (destroyed, or never one)");
  if (is_inherited(comm))
    return error(xylInvalidUsage,
                 "%s: this process was forked after the communicator was made; only the parent may use it",
                 function);
  return {};
}

inline result find_communicator(xylComm_t comm, const char* function, communicator*& out) {
  member* m = nullptr;
  XYL_TRY(find_member(comm, function, m));
  out = m->ready();
  if (out != nullptr) return {};
  if (const xylResult_t code = m->progress(); code != xylSuccess && code != xylInProgress)
    return error(code, "%s: the communicator could not be made: %s", function, m->text().c_str());
  return error(
      xylInvalidArgument,
      "%s: an earlier nonblocking call on the communicator has not ended (xylCommGetAsyncError tells when)",
      function);
}

inline result check_in_use(xylComm_t live_handle, const char* function) {
  // relaxed: it was set by a call that has returned before this one, or the calls compete anyway.
  if (resolve_handle(live_handle)->finalized.load(std::memory_order_relaxed))
    return error(xylInvalidUsage, "%s: the communicator was finalized; only xylCommDestroy is left", function);
  return {};
}

// Runs f on the communicator behind the handle.
template <class F>
xylResult_t on_communicator(xylComm_t comm, const char* function, F f) noexcept {
  return guarded(comm, [&]() -> result {
    communicator* c = nullptr;
    XYL_TRY(find_communicator(comm, function, c));
    return f(*c);
  });
}

template <class T, class Get>
xylResult_t query(xylComm_t comm, const char* function, T* out, Get get) noexcept {
  return on_communicator(comm, function, [&](communicator& c) -> result {
    if (out == nullptr) return error(xylInvalidArgument, "%s: the result pointer is NULL", function);
    *out = get(c);
    return {};
  });
}

}  // namespace xyl
