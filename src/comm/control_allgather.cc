// SPDX-License-Identifier: BSD-3-Clause
#include "comm/control_allgather.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>

namespace xyl {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t board_pages = (sizeof(control_board) + page - 1) / page * page;

// Exchanges of parts are numbered within the exchange of all that they follow: more of them than any initialisation
// needs, and never one number twice.
constexpr std::uint64_t parts_per_whole = 1 << 20;

}  // namespace

layout control_board::behind(layout map) {
  map.bytes += board_pages;
  return map;
}

std::uint64_t control_board::offset_in(const layout& extended) { return extended.bytes - board_pages; }

result control_allgather::of_all(const void* mine, void* all, std::size_t bytes, epoch_t epoch) {
  std::vector<int> members(boards_.size());
  std::iota(members.begin(), members.end(), 0);
  for (std::size_t at = 0; at < bytes || at == 0; at += control_board::slot_bytes) {
    const std::size_t piece = std::min(control_board::slot_bytes, bytes - at);
    XYL_TRY(round(&control_board::whole, members, ++whole_, static_cast<const std::uint8_t*>(mine) + at,
                  static_cast<std::uint8_t*>(all) + at, piece, bytes, epoch, nullptr));
  }
  part_ = whole_ * parts_per_whole;
  return {};
}

result control_allgather::of_part(const std::vector<int>& members, const void* mine, void* all, std::size_t bytes,
                                  epoch_t epoch, const interruption* stop) {
  for (std::size_t at = 0; at < bytes || at == 0; at += control_board::slot_bytes) {
    const std::size_t piece = std::min(control_board::slot_bytes, bytes - at);
    XYL_TRY(round(&control_board::part, members, ++part_, static_cast<const std::uint8_t*>(mine) + at,
                  static_cast<std::uint8_t*>(all) + at, piece, bytes, epoch, stop));
  }
  return {};
}

void control_allgather::leave_part() {
  // release: who reads it has everything that this rank announced before.
  std::atomic_ref(boards_[static_cast<std::size_t>(rank_)]->left).store(whole_, std::memory_order_release);
}

result control_allgather::round(control_board::slot (control_board::*slots)[2], const std::vector<int>& members,
                                std::uint64_t number, const std::uint8_t* mine, std::uint8_t* all,
                                std::size_t bytes, std::size_t stride, epoch_t epoch, const interruption* stop) {
  const bool part = slots == &control_board::part;
  const auto slot_of = [&](int rank) -> control_board::slot& {
    return (boards_[static_cast<std::size_t>(rank)]->*slots)[number % 2];
  };
  control_board::slot& own = slot_of(rank_);
  std::memcpy(own.data, mine, bytes);
  // release: whoever finds the number finds the data, and what this rank has read of the exchange before.
  std::atomic_ref(own.number).store(number, std::memory_order_release);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int peer = members[i];
    control_board::slot& theirs = slot_of(peer);
    std::uint64_t seen = 0;
    bool left = false, stopped = false;
    const auto ready = [&] {
      // Looked at first: what a rank announced before it left still counts. acquire: see leave_part().
      left =
          part &&
          std::atomic_ref(boards_[static_cast<std::size_t>(peer)]->left).load(std::memory_order_acquire) == whole_;
      // acquire: pairs with the release above.
      seen = std::atomic_ref(theirs.number).load(std::memory_order_acquire);
      stopped = stop && stop->requested();
      return seen == number || left || stopped;
    };
    if (!waits_.until(ready, {{peer, phase::control}, number, epoch}, seen))
      return error(xylRemoteError, "rank %d did not come to an exchange of the control plane", peer);
    if (stopped) return error(xylRemoteError, "initialisation was aborted on rank %d", rank_);
    if (seen != number) return error(xylRemoteError, "rank %d left the initialisation", peer);
    std::memcpy(all + i * stride, theirs.data, bytes);
  }
  return {};
}

}  // namespace xyl
