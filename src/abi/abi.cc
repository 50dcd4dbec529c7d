// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h for errors, queries and collectives.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include <cstring>
#include <string>

#include "abi/grouped.hpp"
#include "base/enumeration.hpp"

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
  return guarded(comm, [&]() -> result {
    xyl::member* m = nullptr;
    XYL_TRY(xyl::find_member(comm, "xylCommGetAsyncError", m));
    if (error == nullptr) return xyl::error(xylInvalidArgument, "xylCommGetAsyncError: the result pointer is NULL");
    *error = m->progress();
    // Nobody was told yet what a making in the background failed with.
    if (*error != xylSuccess && *error != xylInProgress) xyl::remember_error(comm, m->text());
    communicator* const c = m->ready();
    if (*error == xylSuccess && c != nullptr) *error = c->async_error();
    return {};
  });
}

xylResult_t xylCommCount(xylComm_t comm, int* count) {
  return query(comm, "xylCommCount", count, [](communicator& c) { return c.ranks(); });
}

xylResult_t xylCommDescribe(xylComm_t comm, char* buffer, size_t* length) {
  return on_communicator(comm, "xylCommDescribe", [&](communicator& c) -> result {
    if (length == nullptr) return xyl::error(xylInvalidArgument, "xylCommDescribe: length is NULL");
    std::string text;
    XYL_TRY(c.describe(text));
    const std::size_t room = *length;
    *length = text.size() + 1;
    if (buffer == nullptr) return {};
    if (room < text.size() + 1) {
      if (room > 0) buffer[0] = '\0';
      return xyl::error(xylInvalidArgument, "xylCommDescribe: the text takes %zu bytes, the buffer has %zu",
                        text.size() + 1, room);
    }
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    return {};
  });
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
  return xyl::grouped_request(comm, function, r);
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
  return collect(comm, "xylBarrier", {collective::barrier, nullptr, nullptr, 0, 0, 0, 0, stream});
}

xylResult_t xylRedOpCreatePreMulSum(xylRedOp_t* op, void* scalar, xylDataType_t type,
                                    xylScalarResidence_t residence, xylComm_t comm) {
  return on_communicator(comm, "xylRedOpCreatePreMulSum", [&](communicator& c) -> result {
    if (op == nullptr || scalar == nullptr)
      return xyl::error(xylInvalidArgument, "xylRedOpCreatePreMulSum: %s is NULL", op == nullptr ? "op" : "scalar");
    int made = 0;
    XYL_TRY(c.create_operation(scalar, xyl::number_of(type), xyl::number_of(residence), made));
    *op = static_cast<xylRedOp_t>(made);
    return {};
  });
}

xylResult_t xylRedOpDestroy(xylRedOp_t op, xylComm_t comm) {
  return on_communicator(comm, "xylRedOpDestroy",
                         [&](communicator& c) { return c.destroy_operation(static_cast<int>(op)); });
}

xylResult_t xylAllReduceRMSNorm(const xylAllReduceRMSNormArgs_t* args, xylComm_t comm, xylStream_t stream) {
  return xyl::grouped_fused(comm, "xylAllReduceRMSNorm", args, nullptr, false, stream);
}

xylResult_t xylMoeAllReduceRMSNorm(const xylMoeReduceArgs_t* moe, const xylAllReduceRMSNormArgs_t* args,
                                   xylComm_t comm, xylStream_t stream) {
  return xyl::grouped_fused(comm, "xylMoeAllReduceRMSNorm", args, moe, true, stream);
}
