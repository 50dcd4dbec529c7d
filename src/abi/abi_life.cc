// SPDX-License-Identifier: BSD-3-Clause
//
// The entry points of xylem.h for the life of a communicator: unique ids, initialisation, abort, destruction.

// What this header declares is what the library exports.
#pragma GCC visibility push(default)
#include "xylem/xylem.h"
#pragma GCC visibility pop

#include <cstring>

#include "abi/guard.hpp"
#include "comm/initialise.hpp"

using namespace xyl;

namespace {

result check_rank(const char* function, int ranks, int rank) {
  if (ranks < 1 || ranks > host_capacity)
    return error(xylInvalidArgument, "%s: %d ranks; 1 to %d are possible on one machine", function, ranks,
                 host_capacity);
  if (rank < 0 || rank >= ranks) return error(xylInvalidArgument, "%s: rank %d of %d ranks", function, rank, ranks);
  return {};
}

}  // namespace

xylResult_t xylGetUniqueId(xylUniqueId* id) {
  return guarded(nullptr, [&]() -> result {
    if (id == nullptr) return error(xylInvalidArgument, "xylGetUniqueId: id is NULL");
    unique_id_bytes bytes;
    XYL_TRY(make_unique_id(bytes));
    static_assert(sizeof id->internal == sizeof bytes);
    std::memcpy(id->internal, bytes.data(), bytes.size());
    return {};
  });
}

xylResult_t xylCommInitRank(xylComm_t* comm, int ranks, xylUniqueId id, int rank) {
  if (comm != nullptr) *comm = nullptr;
  return guarded(nullptr, [&]() -> result {
    if (comm == nullptr) return error(xylInvalidArgument, "xylCommInitRank: comm is NULL");
    XYL_TRY(check_rank("xylCommInitRank", ranks, rank));
    unique_id_bytes bytes;
    std::memcpy(bytes.data(), id.internal, bytes.size());
    std::unique_ptr<communicator> made;
    XYL_TRY(initialise_rank(bytes, ranks, rank, nullptr, made));
    *comm = publish_handle(std::move(made));
    if (*comm == nullptr) return error(xylSystemError, "xylCommInitRank: too many communicators in this process");
    return {};
  });
}

xylResult_t xylCommInitOob(xylComm_t* comm, int ranks, int rank, xylAllgatherFunc_t allgather, void* context) {
  if (comm != nullptr) *comm = nullptr;
  return guarded(nullptr, [&]() -> result {
    if (comm == nullptr) return error(xylInvalidArgument, "xylCommInitOob: comm is NULL");
    if (allgather == nullptr) return error(xylInvalidArgument, "xylCommInitOob: allgather is NULL");
    XYL_TRY(check_rank("xylCommInitOob", ranks, rank));
    std::unique_ptr<communicator> made;
    XYL_TRY(communicator::create(
        ranks, rank,
        [=](const void* send, void* recv, std::size_t bytes) { return allgather(context, send, recv, bytes); },
        made));
    *comm = publish_handle(std::move(made));
    if (*comm == nullptr) return error(xylSystemError, "xylCommInitOob: too many communicators in this process");
    return {};
  });
}

xylResult_t xylCommDestroy(xylComm_t comm) {
  if (comm == nullptr) return xylSuccess;
  return guarded(nullptr, [&]() -> result {
    if (resolve_handle(comm) != nullptr && is_inherited(comm))
      return error(xylInvalidUsage, "xylCommDestroy: this process was forked after the communicator was made");
    if (withdraw_handle(comm) == nullptr)
      return error(xylInvalidArgument, "xylCommDestroy: not a communicator (destroyed, or never one)");
    return {};
  });
}

xylResult_t xylCommAbort(xylComm_t comm) {
  return on_communicator(comm, "xylCommAbort", [](communicator& c) -> result {
    c.abort();
    return {};
  });
}
