// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h for errors, queries and collectives.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include "abi/guard.hpp"

using xyl::communicator;
using xyl::guarded;
using xyl::on_communicator;
using xyl::query;
using xyl::result;

xylResult_t xylGetVersion(int* version) {
  return guarded(nullptr, [&]() -> result {
    if (version == nullptr) return xyl::error(xylInvalidArgument, "xylGetVersion: version is NULL");
    *version = XYL_VERSION_CODE;
    return {};
  });
}

const char* xylGetErrorString(xylResult_t code) {
  switch (code) {
    case xylSuccess:
      return "no error";
    case xylUnhandledCudaError:
      return "a CUDA call failed";
    case xylSystemError:
      return "the operating system refused a request";
    case xylInternalError:
      return "internal error";
    case xylInvalidArgument:
      return "invalid argument";
    case xylInvalidUsage:
      return "invalid usage";
    case xylRemoteError:
      return "another rank failed or left";
    case xylInProgress:
      return "still in progress";
    case xylTimeout:
      return "a rank did not arrive in time";
  }
  return "unknown result code";
}

const char* xylGetLastError(xylComm_t comm) {
  static thread_local std::string text;
  try {
    text = xyl::recall_error(comm);
  } catch (...) {
    return "out of memory";
  }
  return text.c_str();
}

xylResult_t xylCommGetAsyncError(xylComm_t comm, xylResult_t* error) {
  return query(comm, "xylCommGetAsyncError", error, [](communicator& c) { return c.async_error(); });
}

xylResult_t xylCommCount(xylComm_t comm, int* count) {
  return query(comm, "xylCommCount", count, [](communicator& c) { return c.ranks(); });
}

xylResult_t xylCommUserRank(xylComm_t comm, int* rank) {
  return query(comm, "xylCommUserRank", rank, [](communicator& c) { return c.rank(); });
}

xylResult_t xylCommDevice(xylComm_t comm, int* device) {
  return query(comm, "xylCommDevice", device, [](communicator& c) { return c.device(); });
}

xylResult_t xylAllReduce(const void* send, void* recv, size_t count, xylDataType_t type, xylRedOp_t op,
                         xylComm_t comm, xylStream_t stream) {
  return on_communicator(comm, "xylAllReduce", [&](communicator& c) {
    return c.all_reduce(send, recv, count, static_cast<int>(type), static_cast<int>(op), stream);
  });
}

xylResult_t xylBarrier(xylComm_t comm, xylStream_t) {
  return on_communicator(comm, "xylBarrier", [](communicator& c) { return c.barrier(); });
}
