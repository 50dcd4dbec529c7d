// SPDX-License-Identifier: BSD-3-Clause
//
// Deriving communicators: the ranks of one agree who is together with whom, and each part initialises over the
// control plane that they have already. Nothing of the parent's initialisation (the caller's allgather, a unique
// id) is needed again.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "proto/flagged.hpp"

namespace xyl {

namespace {

struct wish {
  std::int32_t color;
  std::int32_t key;
};

// The ranks of that colour, by key and, where keys are equal, by rank.
std::vector<int> members_of(const std::vector<wish>& wishes, std::int32_t color) {
  std::vector<int> members;
  for (std::size_t r = 0; r < wishes.size(); ++r)
    if (wishes[r].color == color) members.push_back(static_cast<int>(r));
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return members;
}

}  // namespace

result communicator::split(int color, int key, const interruption* stop, std::unique_ptr<communicator>& out) {
  out.reset();
  const std::lock_guard guard(lock_);
  ++calls_;
  call_record record;
  record.what = collective::split;
  record.selection = selection_hash_;
  begin_host_call(record);
  // First as every call: that the others have called something else is found before anybody waits for a board.
  if (!xyl::barrier(*space_, host_call_)) return leave_host_call();

  // What was in order when the parent began its part stays so for all, or is given up by all (host_wait).
  const epoch_t epoch = own_control().call.epoch;
  const wish mine{color, key};
  std::vector<wish> wishes(static_cast<std::size_t>(ranks_));
  if (!control_->of_all(&mine, wishes.data(), sizeof mine, epoch).ok()) return leave_host_call();
  if (color == XYL_SPLIT_NOCOLOR) return {};

  const std::vector<int> members = members_of(wishes, color);
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  result exchanged;
  result made = create(
      static_cast<int>(members.size()), static_cast<int>(place),
      [&](const void* send, void* recv, std::size_t bytes) -> int {
        if (exchanged.ok()) exchanged = control_->of_part(members, send, recv, bytes, epoch, stop);
        return exchanged.code();
      },
      out, device());
  if (made.ok()) return {};
  control_->leave_part();
  // What the exchange has to say is nearer to the cause than that an exchange has failed.
  if (waits_->out_of_service()) return leave_host_call();
  return exchanged.ok() ? std::move(made) : std::move(exchanged);
}

result communicator::finalize() {
  const std::lock_guard guard(lock_);
  // Host work ends with its call.
  return device_ ? device_->drain() : result();
}

}  // namespace xyl
