// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_mpi.hpp"

#include <algorithm>
#include <climits>

#include "tools/perf_types.hpp"

namespace xyl {
namespace {

MPI_Datatype number_type(xylDataType_t type) {
  switch (type) {
    case xylInt8:
      return MPI_INT8_T;
    case xylUint8:
      return MPI_UINT8_T;
    case xylInt16:
      return MPI_INT16_T;
    case xylUint16:
      return MPI_UINT16_T;
    case xylInt32:
      return MPI_INT32_T;
    case xylUint32:
      return MPI_UINT32_T;
    case xylInt64:
      return MPI_INT64_T;
    case xylUint64:
      return MPI_UINT64_T;
    case xylFloat32:
      return MPI_FLOAT;
    case xylFloat64:
      return MPI_DOUBLE;
    default:
      return MPI_DATATYPE_NULL;
  }
}

MPI_Datatype moved_type(xylDataType_t type) {
  switch (info_of(type).size) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

MPI_Op mpi_operation(xylRedOp_t operation) {
  switch (operation) {
    case xylSum:
      return MPI_SUM;
    case xylProd:
      return MPI_PROD;
    case xylMax:
      return MPI_MAX;
    case xylMin:
      return MPI_MIN;
    case xylBitAnd:
      return MPI_BAND;
    case xylBitOr:
      return MPI_BOR;
    case xylBitXor:
      return MPI_BXOR;
    default:
      return MPI_OP_NULL;
  }
}

// Longer messages of an allreduce go in pieces of this many elements.
constexpr std::size_t mpi_piece = std::size_t{1} << 30;

int reducible(const collective_call& c) {
  if (number_type(c.type) == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
  return mpi_operation(c.operation) == MPI_OP_NULL ? MPI_ERR_OP : MPI_SUCCESS;
}

bool fits(const collective_call& c) { return c.count <= INT_MAX; }
int int_count(const collective_call& c) { return static_cast<int>(c.count); }

const void* input(const collective_call& c) { return c.in_place ? MPI_IN_PLACE : c.send; }

}  // namespace

int mpi_all_reduce(const collective_call& c, MPI_Comm comm) {
  if (const int status = reducible(c); status != MPI_SUCCESS) return status;
  const std::size_t size = info_of(c.type).size;
  for (std::size_t done = 0; done < c.count; done += mpi_piece) {
    void* recv = static_cast<std::byte*>(c.recv) + done * size;
    const void* send = c.in_place ? MPI_IN_PLACE : static_cast<const std::byte*>(c.send) + done * size;
    const int count = static_cast<int>(std::min(c.count - done, mpi_piece));
    if (const int status = MPI_Allreduce(send, recv, count, number_type(c.type), mpi_operation(c.operation), comm);
        status != MPI_SUCCESS)
      return status;
  }
  return MPI_SUCCESS;
}

int mpi_reduce(const collective_call& c, MPI_Comm comm) {
  if (const int status = reducible(c); status != MPI_SUCCESS) return status;
  if (!fits(c)) return MPI_ERR_COUNT;
  const void* send = c.rank == c.root ? input(c) : c.send;
  return MPI_Reduce(send, c.recv, int_count(c), number_type(c.type), mpi_operation(c.operation), c.root, comm);
}

int mpi_broadcast(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  // MPI_Bcast only reads at the root.
  void* buffer = c.rank == c.root ? const_cast<void*>(c.send) : c.recv;
  return MPI_Bcast(buffer, int_count(c), moved_type(c.type), c.root, comm);
}

int mpi_reduce_scatter(const collective_call& c, MPI_Comm comm) {
  if (const int status = reducible(c); status != MPI_SUCCESS) return status;
  if (!fits(c)) return MPI_ERR_COUNT;
  void* recv = c.in_place ? const_cast<void*>(c.send) : c.recv;
  return MPI_Reduce_scatter_block(input(c), recv, int_count(c), number_type(c.type), mpi_operation(c.operation),
                                  comm);
}

int mpi_all_gather(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  const MPI_Datatype type = moved_type(c.type);
  return MPI_Allgather(input(c), int_count(c), type, c.recv, int_count(c), type, comm);
}

int mpi_all_to_all(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  const MPI_Datatype type = moved_type(c.type);
  return MPI_Alltoall(input(c), int_count(c), type, c.recv, int_count(c), type, comm);
}

int mpi_gather(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  const MPI_Datatype type = moved_type(c.type);
  const void* send = c.rank == c.root ? input(c) : c.send;
  return MPI_Gather(send, int_count(c), type, c.recv, int_count(c), type, c.root, comm);
}

int mpi_scatter(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  const MPI_Datatype type = moved_type(c.type);
  void* recv = c.rank == c.root && c.in_place ? MPI_IN_PLACE : c.recv;
  return MPI_Scatter(c.send, int_count(c), type, recv, int_count(c), type, c.root, comm);
}

int mpi_send_receive(const collective_call& c, MPI_Comm comm) {
  if (!fits(c)) return MPI_ERR_COUNT;
  const MPI_Datatype type = moved_type(c.type);
  return MPI_Sendrecv(c.send, int_count(c), type, (c.rank + 1) % c.ranks, 0, c.recv, int_count(c), type,
                      (c.rank + c.ranks - 1) % c.ranks, 0, comm, MPI_STATUS_IGNORE);
}

int mpi_barrier(const collective_call&, MPI_Comm comm) { return MPI_Barrier(comm); }

bool mpi_can(const perf_collective& collective, const collective_call& call) {
  if (collective.reduces && reducible(call) != MPI_SUCCESS) return false;
  return collective.mpi_call == mpi_all_reduce || fits(call);
}

}  // namespace xyl
