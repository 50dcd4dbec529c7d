// SPDX-License-Identifier: BSD-3-Clause
#include "comm/request.hpp"

#include <cstdint>

#include "exec/dispatch.hpp"
#include "proto/user_memory.hpp"

namespace xyl {

const char* name_of(collective what) {
  switch (what) {
    case collective::barrier:
      return "barrier";
    case collective::all_reduce:
      return "allreduce";
    case collective::reduce:
      return "reduce";
    case collective::broadcast:
      return "broadcast";
    case collective::reduce_scatter:
      return "reducescatter";
    case collective::all_gather:
      return "allgather";
    case collective::all_to_all:
      return "alltoall";
    case collective::gather:
      return "gather";
    case collective::scatter:
      return "scatter";
    case collective::send:
      return "send";
    case collective::receive:
      return "recv";
    case collective::split:
      return "split";
    case collective::fused_all_reduce:
      return "fused allreduce";
    case collective::window_register:
      return "xylCommRegister";
    case collective::window_deregister:
      return "xylCommDeregister";
  }
  return "?";
}

result check_arguments(const request& r, int rank, int ranks) {
  const char* const name = name_of(r.what);
  const type_facts* const facts = facts_of(r.type);
  if (facts == nullptr) return error(xylInvalidArgument, "%s: %d is not a data type", name, r.type);
  if (is_reduction(r.what) && r.op < first_created_operation) {
    if (name_of_operation(r.op) == nullptr)
      return error(xylInvalidArgument, "%s: %d is not an operation", name, r.op);
    if (r.op >= xylBitAnd && !facts->is_integer)
      return error(xylInvalidArgument, "%s: bitwise %s needs an integer type, not %s", name,
                   name_of_operation(r.op), facts->name);
  }
  if ((has_root(r.what) || is_transfer(r.what)) && (r.root < 0 || r.root >= ranks))
    return error(xylInvalidArgument, "%s: %s %d is none of the ranks 0 to %d", name,
                 is_transfer(r.what) ? "peer" : "root", r.root, ranks - 1);
  if (is_transfer(r.what) && r.root == rank)
    return error(xylInvalidUsage, "%s: peer %d is this rank itself", name, r.root);
  // Some buffers hold a piece for every rank. (Two divisions would be a tenth of a small call.)
  constexpr std::size_t surely_fits = std::size_t{1} << 32;
  if (r.count > surely_fits && r.count > PTRDIFF_MAX / facts->bytes / static_cast<unsigned>(ranks))
    return error(xylInvalidArgument, "%s: %zu elements of %u bytes exceed the address space (negative count?)",
                 name, r.count, facts->bytes);
  if (r.count == 0) return {};
  const bool sends = uses_send(r, rank), receives = uses_recv(r, rank);
  if ((sends && r.send == nullptr) || (receives && r.recv == nullptr))
    return error(xylInvalidArgument, "%s: %s is NULL but count is %zu", name,
                 sends && r.send == nullptr ? "sendbuff" : "recvbuff", r.count);
  const bool send_fits = !sends || is_aligned(r.send, facts->bytes);
  if (!send_fits || (receives && !is_aligned(r.recv, facts->bytes)))
    return error(xylInvalidArgument, "%s: %s is not aligned to its element type (%s, %u bytes)", name,
                 send_fits ? "recvbuff" : "sendbuff", facts->name, facts->bytes);
  return {};
}

movement movement_of(const request& r, std::size_t piece_bytes) {
  movement m;
  m.bytes = piece_bytes;
  if (r.what == collective::all_to_all || r.what == collective::scatter) m.input_stride = piece_bytes;
  if (r.what == collective::all_to_all || r.what == collective::all_gather || r.what == collective::gather)
    m.output_stride = piece_bytes;
  if (r.what == collective::broadcast || r.what == collective::scatter) m.from = r.root;
  if (r.what == collective::gather) m.to = r.root;
  return m;
}

transfer transfer_of(const request& r, std::uint64_t fingerprint) {
  transfer t;
  t.from = static_cast<const std::byte*>(r.send);
  t.to = static_cast<std::byte*>(r.recv);
  t.bytes = r.count * facts_of(r.type)->bytes;
  t.fingerprint = fingerprint;
  t.peer = r.root;
  t.sends = r.what == collective::send;
  return t;
}

}  // namespace xyl
