// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h. One guard per call: it turns a result, or whatever the standard library threw, into
// a code, and keeps the sentence for xylGetLastError.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include <new>

#include "abi/handles.hpp"
#include "base/log.hpp"

namespace {

using xyl::communicator;
using xyl::result;

xylResult_t finish(xylComm_t comm, const result& r) {
  if (r.ok()) return xylSuccess;
  xyl::remember_error(comm, r.text());
  xyl::log_line(xyl::log_level::info, xyl::no_rank, "%s", r.text().c_str());
  return r.code();
}

template <class F>
xylResult_t guarded(xylComm_t comm, F f) noexcept {
  try {
    return finish(comm, f());
  } catch (const std::bad_alloc&) {
    try {
      return finish(comm, xyl::error(xylSystemError, "out of memory"));
    } catch (...) {
      return xylSystemError;
    }
  } catch (const std::exception& e) {
    try {
      return finish(comm, xyl::error(xylInternalError, "unexpected: %s", e.what()));
    } catch (...) {
      return xylInternalError;
    }
  } catch (...) {
    // Nothing of ours: the caller's allgather can throw anything.
    try {
      return finish(comm, xyl::error(xylInternalError,
                                     "an exception that is not a std::exception came, as from the "
                                     "caller's allgather"));
    } catch (...) {
      return xylInternalError;
    }
  }
}

// Runs f on the communicator behind the handle.
template <class F>
xylResult_t on_communicator(xylComm_t comm, const char* function, F f) noexcept {
  return guarded(comm, [&]() -> result {
    communicator* const c = xyl::resolve_handle(comm);
    if (c == nullptr)
      return xyl::error(xylInvalidArgument, "%s: comm is %s", function,
                        comm == nullptr ? "NULL" : "not a communicator (destroyed, or never one)");
    if (xyl::is_inherited(comm))
      return xyl::error(xylInvalidUsage,
                        "%s: this process was forked after the communicator was made; only the parent "
                        "may use it",
                        function);
    return f(*c);
  });
}

template <class T, class Get>
xylResult_t query(xylComm_t comm, const char* function, T* out, Get get) noexcept {
  return on_communicator(comm, function, [&](communicator& c) -> result {
    if (out == nullptr) return xyl::error(xylInvalidArgument, "%s: the result pointer is NULL", function);
    *out = get(c);
    return {};
  });
}

}  // namespace

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

xylResult_t xylCommInitOob(xylComm_t* comm, int ranks, int rank, xylAllgatherFunc_t allgather, void* context) {
  if (comm != nullptr) *comm = nullptr;
  return guarded(nullptr, [&]() -> result {
    if (comm == nullptr) return xyl::error(xylInvalidArgument, "xylCommInitOob: comm is NULL");
    if (allgather == nullptr) return xyl::error(xylInvalidArgument, "xylCommInitOob: allgather is NULL");
    if (ranks < 1 || ranks > xyl::host_capacity)
      return xyl::error(xylInvalidArgument, "xylCommInitOob: %d ranks; 1 to %d are possible on one machine", ranks,
                        xyl::host_capacity);
    if (rank < 0 || rank >= ranks)
      return xyl::error(xylInvalidArgument, "xylCommInitOob: rank %d of %d ranks", rank, ranks);
    std::unique_ptr<communicator> made;
    XYL_TRY(communicator::create(
        ranks, rank,
        [=](const void* send, void* recv, std::size_t bytes) { return allgather(context, send, recv, bytes); },
        made));
    *comm = xyl::publish_handle(std::move(made));
    if (*comm == nullptr)
      return xyl::error(xylSystemError, "xylCommInitOob: too many communicators in this process");
    return {};
  });
}

xylResult_t xylCommDestroy(xylComm_t comm) {
  if (comm == nullptr) return xylSuccess;
  return guarded(nullptr, [&]() -> result {
    if (xyl::resolve_handle(comm) != nullptr && xyl::is_inherited(comm))
      return xyl::error(xylInvalidUsage, "xylCommDestroy: this process was forked after the communicator was made");
    if (xyl::withdraw_handle(comm) == nullptr)
      return xyl::error(xylInvalidArgument, "xylCommDestroy: not a communicator (destroyed, or never one)");
    return {};
  });
}

xylResult_t xylCommAbort(xylComm_t comm) {
  return on_communicator(comm, "xylCommAbort", [](communicator& c) -> result {
    c.abort();
    return {};
  });
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

namespace {

using xyl::collective;

xylResult_t collect(xylComm_t comm, const char* function, const xyl::request& r) noexcept {
  return on_communicator(comm, function, [&](communicator& c) { return c.collect(r); });
}

}  // namespace

xylResult_t xylAllReduce(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, xylRedOp_t op,
                         xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylAllReduce", {collective::all_reduce, sendbuff, recvbuff, count, type, op, 0, stream});
}

xylResult_t xylReduce(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, xylRedOp_t op,
                      int root, xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylReduce", {collective::reduce, sendbuff, recvbuff, count, type, op, root, stream});
}

xylResult_t xylBroadcast(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, int root,
                         xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylBroadcast", {collective::broadcast, sendbuff, recvbuff, count, type, 0, root, stream});
}

xylResult_t xylReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, xylDataType_t type,
                             xylRedOp_t op, xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylReduceScatter",
                 {collective::reduce_scatter, sendbuff, recvbuff, recvcount, type, op, 0, stream});
}

xylResult_t xylAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, xylDataType_t type, xylComm_t comm,
                         xylStream_t stream) {
  return collect(comm, "xylAllGather", {collective::all_gather, sendbuff, recvbuff, sendcount, type, 0, 0, stream});
}

xylResult_t xylAlltoAll(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, xylComm_t comm,
                        xylStream_t stream) {
  return collect(comm, "xylAlltoAll", {collective::all_to_all, sendbuff, recvbuff, count, type, 0, 0, stream});
}

xylResult_t xylGather(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, int root,
                      xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylGather", {collective::gather, sendbuff, recvbuff, count, type, 0, root, stream});
}

xylResult_t xylScatter(const void* sendbuff, void* recvbuff, size_t count, xylDataType_t type, int root,
                       xylComm_t comm, xylStream_t stream) {
  return collect(comm, "xylScatter", {collective::scatter, sendbuff, recvbuff, count, type, 0, root, stream});
}

xylResult_t xylSend(const void* sendbuff, size_t count, xylDataType_t type, int peer, xylComm_t comm,
                    xylStream_t stream) {
  return collect(comm, "xylSend", {collective::send, sendbuff, nullptr, count, type, 0, peer, stream});
}

xylResult_t xylRecv(void* recvbuff, size_t count, xylDataType_t type, int peer, xylComm_t comm,
                    xylStream_t stream) {
  return collect(comm, "xylRecv", {collective::receive, nullptr, recvbuff, count, type, 0, peer, stream});
}

xylResult_t xylBarrier(xylComm_t comm, xylStream_t stream) {
  return on_communicator(comm, "xylBarrier", [&](communicator& c) { return c.barrier(stream); });
}

xylResult_t xylRedOpCreatePreMulSum(xylRedOp_t* op, void* scalar, xylDataType_t type,
                                    xylScalarResidence_t residence, xylComm_t comm) {
  return on_communicator(comm, "xylRedOpCreatePreMulSum", [&](communicator& c) -> result {
    if (op == nullptr || scalar == nullptr)
      return xyl::error(xylInvalidArgument, "xylRedOpCreatePreMulSum: %s is NULL", op == nullptr ? "op" : "scalar");
    int made = 0;
    XYL_TRY(c.create_operation(scalar, static_cast<int>(type), static_cast<int>(residence), made));
    *op = static_cast<xylRedOp_t>(made);
    return {};
  });
}

xylResult_t xylRedOpDestroy(xylRedOp_t op, xylComm_t comm) {
  return on_communicator(comm, "xylRedOpDestroy",
                         [&](communicator& c) { return c.destroy_operation(static_cast<int>(op)); });
}

xylResult_t xylAllReduceRMSNorm(const xylAllReduceRMSNormArgs_t* args, xylComm_t comm, xylStream_t stream) {
  return on_communicator(comm, "xylAllReduceRMSNorm",
                         [&](communicator& c) { return c.fused_all_reduce(args, nullptr, false, stream); });
}

xylResult_t xylMoeAllReduceRMSNorm(const xylMoeReduceArgs_t* moe, const xylAllReduceRMSNormArgs_t* args,
                                   xylComm_t comm, xylStream_t stream) {
  return on_communicator(comm, "xylMoeAllReduceRMSNorm",
                         [&](communicator& c) { return c.fused_all_reduce(args, moe, true, stream); });
}
