// SPDX-License-Identifier: BSD-3-Clause
#include "tools/perf_collective.hpp"

#include <algorithm>

#include "tools/perf_mpi.hpp"

namespace xyl {
namespace {

using call_ref = const collective_call&;
using parts = std::vector<expected_part>;

// Bus factors.
double both_ways(int ranks) { return 2.0 * (ranks - 1) / ranks; }
double all_but_own(int ranks) { return 1.0 * (ranks - 1) / ranks; }
double whole(int) { return 1; }

// What recv must hold. The last two parameters of a part are offset and count.
parts reduction(call_ref c) { return {{expected_part::reduced, 0, c.count}}; }
parts reduction_share(call_ref c) {
  return {{expected_part::reduced, static_cast<std::size_t>(c.rank) * c.count, c.count}};
}
parts of_root(call_ref c) { return {{c.root, 0, c.count}}; }
parts share_of_root(call_ref c) { return {{c.root, static_cast<std::size_t>(c.rank) * c.count, c.count}}; }
parts of_previous(call_ref c) { return {{(c.rank + c.ranks - 1) % c.ranks, 0, c.count}}; }
parts of_each(call_ref c) {
  parts out;
  for (int rank = 0; rank < c.ranks; ++rank) out.push_back({rank, 0, c.count});
  return out;
}
parts share_of_each(call_ref c) {
  parts out;
  for (int rank = 0; rank < c.ranks; ++rank)
    out.push_back({rank, static_cast<std::size_t>(c.rank) * c.count, c.count});
  return out;
}
parts nothing(call_ref) { return {}; }

// Ranks that get nothing: in place their own input lies in recv.
parts reduction_at_root(call_ref c) {
  if (c.rank == c.root) return reduction(c);
  return {{c.in_place ? c.rank : expected_part::unwritten, 0, c.count}};
}
parts of_each_at_root(call_ref c) {
  if (c.rank == c.root) return of_each(c);
  parts out;
  for (int rank = 0; rank < c.ranks; ++rank)
    out.push_back({c.in_place && rank == c.rank ? rank : expected_part::unwritten, 0, c.count});
  return out;
}

xylResult_t all_reduce(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylAllReduce(c.send, c.recv, c.count, c.type, c.operation, comm, stream);
}
xylResult_t reduce(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylReduce(c.send, c.recv, c.count, c.type, c.operation, c.root, comm, stream);
}
xylResult_t broadcast(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylBroadcast(c.send, c.recv, c.count, c.type, c.root, comm, stream);
}
xylResult_t reduce_scatter(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylReduceScatter(c.send, c.recv, c.count, c.type, c.operation, comm, stream);
}
xylResult_t all_gather(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylAllGather(c.send, c.recv, c.count, c.type, comm, stream);
}
xylResult_t all_to_all(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylAlltoAll(c.send, c.recv, c.count, c.type, comm, stream);
}
xylResult_t gather(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylGather(c.send, c.recv, c.count, c.type, c.root, comm, stream);
}
xylResult_t scatter(call_ref c, xylComm_t comm, xylStream_t stream) {
  return xylScatter(c.send, c.recv, c.count, c.type, c.root, comm, stream);
}
// A ring. The group makes the two go on together; without it every rank would wait in its send.
xylResult_t send_receive(call_ref c, xylComm_t comm, xylStream_t stream) {
  xylResult_t first = xylGroupStart();
  if (first != xylSuccess) return first;
  first = xylSend(c.send, c.count, c.type, (c.rank + 1) % c.ranks, comm, stream);
  if (first == xylSuccess) first = xylRecv(c.recv, c.count, c.type, (c.rank + c.ranks - 1) % c.ranks, comm, stream);
  const xylResult_t end = xylGroupEnd();
  return first == xylSuccess ? end : first;
}
xylResult_t barrier(call_ref, xylComm_t comm, xylStream_t stream) { return xylBarrier(comm, stream); }

constexpr extent none = extent::none;
constexpr extent one = extent::one;
constexpr extent each = extent::per_rank;

// name, help, function; reduces, has a root, has an in-place form; send, recv, bus factor, expected, calls
constexpr perf_collective table[] = {
    {"allreduce", "Reduces over all ranks; every rank gets the result", "xylAllReduce",  //
     true, false, true, one, one, both_ways, reduction, all_reduce, mpi_all_reduce},
    {"reduce", "Reduces over all ranks; the root gets the result", "xylReduce",  //
     true, true, true, one, one, whole, reduction_at_root, reduce, mpi_reduce},
    {"broadcast", "Every rank gets what the root sends", "xylBroadcast",  //
     false, true, true, one, one, whole, of_root, broadcast, mpi_broadcast},
    {"reducescatter", "Reduces over all ranks; every rank gets a share of the result", "xylReduceScatter",  //
     true, false, true, each, one, all_but_own, reduction_share, reduce_scatter, mpi_reduce_scatter},
    {"allgather", "Every rank gets what all ranks send", "xylAllGather",  //
     false, false, true, one, each, all_but_own, of_each, all_gather, mpi_all_gather},
    {"alltoall", "Every rank sends every rank a share of its own", "xylAlltoAll",  //
     false, false, true, each, each, all_but_own, share_of_each, all_to_all, mpi_all_to_all},
    {"gather", "The root gets what all ranks send", "xylGather",  //
     false, true, true, one, each, all_but_own, of_each_at_root, gather, mpi_gather},
    {"scatter", "Every rank gets a share of what the root sends", "xylScatter",  //
     false, true, true, each, one, all_but_own, share_of_root, scatter, mpi_scatter},
    {"sendrecv", "Every rank sends to the next and receives from the previous one", "xylSend and xylRecv",  //
     false, false, false, one, one, whole, of_previous, send_receive, mpi_send_receive},
    {"barrier", "No rank leaves before all have come", "xylBarrier",  //
     false, false, false, none, none, whole, nothing, barrier, mpi_barrier},
};

}  // namespace

std::span<const perf_collective> perf_collectives() { return table; }

std::size_t elements_of(extent e, std::size_t count, int ranks) {
  if (e == extent::none) return 0;
  return e == extent::one ? count : count * static_cast<std::size_t>(ranks);
}

std::size_t count_for(const perf_collective& collective, std::uint64_t bytes, std::size_t element_size, int ranks) {
  if (collective.send == extent::none && collective.recv == extent::none) return 0;
  const std::size_t shares =
      std::max(elements_of(collective.send, 1, ranks), elements_of(collective.recv, 1, ranks));
  return std::max<std::size_t>(bytes / element_size / shares, 1);
}

std::uint64_t message_bytes(const perf_collective& collective, std::size_t count, std::size_t element_size,
                            int ranks) {
  return element_size *
         std::max(elements_of(collective.send, count, ranks), elements_of(collective.recv, count, ranks));
}

void place_buffers(const perf_collective& collective, std::size_t element_size, std::byte* send, std::byte* recv,
                   collective_call& call) {
  call.send = call.in_place ? recv : send;
  call.recv = recv;
  if (!call.in_place || collective.send == collective.recv) return;
  std::byte* const own = recv + static_cast<std::size_t>(call.rank) * call.count * element_size;
  if (collective.send == extent::one)
    call.send = own;
  else
    call.recv = own;
}

}  // namespace xyl
