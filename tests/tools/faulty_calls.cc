// SPDX-License-Identifier: BSD-3-Clause
//
// xylem-perf with a fault in every collective, for tests/perf.sh: the linker sends the tool's calls here (--wrap),
// the library does the work, and then the lowest bit of the first byte of the output is turned over on one rank:
// the root, or the last one. The barrier lets everybody pass. Host memory only.
#include <cstddef>
#include <utility>

#include "xylem/xylem.h"

namespace {

void turn_over(void* output) { *static_cast<unsigned char*>(output) ^= 1u; }

bool is_rank(xylComm_t comm, int which) {
  int rank = 0;
  xylCommUserRank(comm, &rank);
  return rank == which;
}

bool is_last(xylComm_t comm) {
  int ranks = 0;
  xylCommCount(comm, &ranks);
  return is_rank(comm, ranks - 1);
}

xylResult_t spoil(xylResult_t code, bool here, void* output) {
  if (code == xylSuccess && here) turn_over(output);
  return code;
}

thread_local void* received = nullptr;  // in the group that is open

}  // namespace

// The names are the linker's.
extern "C" {

decltype(xylAllReduce) __real_xylAllReduce;
xylResult_t __wrap_xylAllReduce(const void* send, void* recv, size_t count, xylDataType_t type, xylRedOp_t op,
                                xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylAllReduce(send, recv, count, type, op, comm, stream), is_last(comm), recv);
}

decltype(xylReduce) __real_xylReduce;
xylResult_t __wrap_xylReduce(const void* send, void* recv, size_t count, xylDataType_t type, xylRedOp_t op,
                             int root, xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylReduce(send, recv, count, type, op, root, comm, stream), is_rank(comm, root), recv);
}

decltype(xylBroadcast) __real_xylBroadcast;
xylResult_t __wrap_xylBroadcast(const void* send, void* recv, size_t count, xylDataType_t type, int root,
                                xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylBroadcast(send, recv, count, type, root, comm, stream), is_last(comm), recv);
}

decltype(xylReduceScatter) __real_xylReduceScatter;
xylResult_t __wrap_xylReduceScatter(const void* send, void* recv, size_t count, xylDataType_t type, xylRedOp_t op,
                                    xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylReduceScatter(send, recv, count, type, op, comm, stream), is_last(comm), recv);
}

decltype(xylAllGather) __real_xylAllGather;
xylResult_t __wrap_xylAllGather(const void* send, void* recv, size_t count, xylDataType_t type, xylComm_t comm,
                                xylStream_t stream) {
  return spoil(__real_xylAllGather(send, recv, count, type, comm, stream), is_last(comm), recv);
}

decltype(xylAlltoAll) __real_xylAlltoAll;
xylResult_t __wrap_xylAlltoAll(const void* send, void* recv, size_t count, xylDataType_t type, xylComm_t comm,
                               xylStream_t stream) {
  return spoil(__real_xylAlltoAll(send, recv, count, type, comm, stream), is_last(comm), recv);
}

decltype(xylGather) __real_xylGather;
xylResult_t __wrap_xylGather(const void* send, void* recv, size_t count, xylDataType_t type, int root,
                             xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylGather(send, recv, count, type, root, comm, stream), is_rank(comm, root), recv);
}

decltype(xylScatter) __real_xylScatter;
xylResult_t __wrap_xylScatter(const void* send, void* recv, size_t count, xylDataType_t type, int root,
                              xylComm_t comm, xylStream_t stream) {
  return spoil(__real_xylScatter(send, recv, count, type, root, comm, stream), is_last(comm), recv);
}

decltype(xylRecv) __real_xylRecv;
xylResult_t __wrap_xylRecv(void* recv, size_t count, xylDataType_t type, int peer, xylComm_t comm,
                           xylStream_t stream) {
  if (is_last(comm)) received = recv;
  return __real_xylRecv(recv, count, type, peer, comm, stream);
}

decltype(xylGroupEnd) __real_xylGroupEnd;
xylResult_t __wrap_xylGroupEnd() {
  void* const output = std::exchange(received, nullptr);
  return spoil(__real_xylGroupEnd(), output != nullptr, output);
}

xylResult_t __wrap_xylBarrier(xylComm_t, xylStream_t) { return xylSuccess; }

// A norm may be one step off, not four.
decltype(xylAllReduceRMSNorm) __real_xylAllReduceRMSNorm;
xylResult_t __wrap_xylAllReduceRMSNorm(const xylAllReduceRMSNormArgs_t* args, xylComm_t comm, xylStream_t stream) {
  const xylResult_t code = __real_xylAllReduceRMSNorm(args, comm, stream);
  void* const output = args->quantised ? args->quantised : args->output;
  if (code == xylSuccess && is_last(comm)) *static_cast<unsigned char*>(output) ^= 4u;
  return code;
}
}
