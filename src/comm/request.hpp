// SPDX-License-Identifier: BSD-3-Clause
//
// A collective call as the user made it, and whether its arguments can be right: what every collective asks of its
// buffers, in one place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "exec/host_scale.hpp"
#include "proto/call.hpp"
#include "proto/transfer.hpp"

namespace xyl {

struct fused_request;

struct request {
  collective what = collective::barrier;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;  // elements of one piece
  int type = 0;
  int op = 0;    // of reductions
  int root = 0;  // or the peer of a send or receive
  xylStream_t stream = nullptr;
  std::shared_ptr<const fused_request> fused = nullptr;  // fused_all_reduce: all but the stream
  // What a created operation stood for when a group recorded the call: it may be destroyed, and its number be
  // another one's, before the group ends.
  std::optional<scaling> scale = std::nullopt;
};

constexpr bool is_reduction(collective what) {
  return what == collective::all_reduce || what == collective::reduce || what == collective::reduce_scatter;
}
constexpr bool has_root(collective what) {
  return what == collective::reduce || what == collective::broadcast || what == collective::gather ||
         what == collective::scatter;
}
constexpr bool is_transfer(collective what) { return what == collective::send || what == collective::receive; }

// Which buffers the call uses on this rank.
constexpr bool uses_send(const request& r, int rank) {
  if (r.what == collective::broadcast || r.what == collective::scatter) return rank == r.root;
  return r.what != collective::receive && r.what != collective::barrier;
}
constexpr bool uses_recv(const request& r, int rank) {
  if (r.what == collective::reduce || r.what == collective::gather) return rank == r.root;
  return r.what != collective::send && r.what != collective::barrier;
}

// "allgather", as in messages.
const char* name_of(collective what);

// xylInvalidArgument, with a sentence, for what is wrong on this rank whatever the others do. Created operations
// are not looked at.
result check_arguments(const request& r, int rank, int ranks);

// Bytes of a piece of the call, and where the pieces lie. For the collectives that only move data.
movement movement_of(const request& r, std::size_t piece_bytes);

// A send or receive, in one block; see fingerprint_of_pair().
transfer transfer_of(const request& r, std::uint64_t fingerprint);

}  // namespace xyl
