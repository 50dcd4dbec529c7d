// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_collective.hpp"

#include <algorithm>
#include <climits>

namespace xyl {
namespace {

MPI_Datatype mpi_type(xylDataType_t type) {
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

// MPI counts are int; longer messages go in pieces of this many elements.
constexpr std::size_t mpi_piece = std::size_t{1} << 30;

double all_reduce_bus_factor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

xylResult_t all_reduce(const collective_call& c, xylComm_t comm, xylStream_t stream) {
  return xylAllReduce(c.send, c.recv, c.count, c.type, c.operation, comm, stream);
}

int all_reduce_by_mpi(const collective_call& c, MPI_Comm comm) {
  const MPI_Datatype type = mpi_type(c.type);
  const MPI_Op operation = mpi_operation(c.operation);
  if (type == MPI_DATATYPE_NULL) return MPI_ERR_TYPE;
  if (operation == MPI_OP_NULL) return MPI_ERR_OP;
  int size = 0;
  MPI_Type_size(type, &size);
  for (std::size_t done = 0; done < c.count; done += mpi_piece) {
    const std::size_t offset = done * static_cast<std::size_t>(size);
    void* recv = static_cast<std::byte*>(c.recv) + offset;
    const void* send = c.send == c.recv ? MPI_IN_PLACE : static_cast<const std::byte*>(c.send) + offset;
    const int count = static_cast<int>(std::min(c.count - done, mpi_piece));
    if (const int status = MPI_Allreduce(send, recv, count, type, operation, comm); status != MPI_SUCCESS)
      return status;
  }
  return MPI_SUCCESS;
}

constexpr perf_collective table[] = {
    {"allreduce", "Reduces over all ranks; every rank gets the result", -1, all_reduce_bus_factor, all_reduce,
     "xylAllReduce", make_reduced, all_reduce_by_mpi},
};

}  // namespace

std::span<const perf_collective> perf_collectives() { return table; }

bool mpi_can(xylDataType_t type, xylRedOp_t operation) {
  return mpi_type(type) != MPI_DATATYPE_NULL && mpi_operation(operation) != MPI_OP_NULL;
}

}  // namespace xyl
