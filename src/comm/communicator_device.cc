// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator's life: made if every rank has a device and can reach the others' memory, else
// left out on all ranks alike, with the reason kept for whoever passes a device pointer.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <vector>

#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "exec/device_check.hpp"
#include "exec/dispatch.hpp"

namespace xyl {

namespace {

// Budgets of one slot of a device workspace, shared by all sources: 39 MB in all, rings included, with eight ranks.
constexpr std::uint64_t device_packet_bytes = 2 << 20;
constexpr std::uint64_t device_bulk_bytes = 16 << 20;
// Of all pairs' rings.
constexpr std::uint64_t device_message_bytes = 2 << 20;
constexpr std::uint32_t device_blocks = 64;
// Ranks are at the same place when they check their kernels; the longest they may be apart.
constexpr std::int64_t check_deadline_ns = 30'000'000'000;

// How many ranks use the GPU of each rank.
std::vector<int> ranks_on_same_gpu(const std::vector<device_handle>& all) {
  std::map<std::vector<std::uint8_t>, int> sharing;
  for (const device_handle& h : all) ++sharing[{h.uuid, h.uuid + sizeof h.uuid}];
  std::vector<int> count;
  for (const device_handle& h : all) count.push_back(sharing[{h.uuid, h.uuid + sizeof h.uuid}]);
  return count;
}

// Blocks that are co-resident on every rank's GPU, with room for a second launch (a programmatic successor, or
// another communicator). Each block waits for the blocks of its index, so more would hang.
unsigned co_resident_blocks(const std::vector<device_handle>& all, const std::vector<int>& sharing) {
  int least = static_cast<int>(device_blocks);
  for (std::size_t i = 0; i < all.size(); ++i) least = std::min(least, all[i].max_blocks / (2 * sharing[i]));
  return static_cast<unsigned>(std::max(least, 0));
}

// The same for the fused kernels, by form. Rows need whole clusters of blocks, which the division keeps.
fused_limits co_resident_fused(const std::vector<device_handle>& all, const std::vector<int>& sharing) {
  fused_limits limits;
  limits.clusters = true;
  for (std::size_t form = 0; form < fused_forms; ++form) {
    std::vector<device_handle> as_if = all;
    for (device_handle& h : as_if) h.max_blocks = h.max_fused_blocks[form];
    limits.blocks[form] = co_resident_blocks(as_if, sharing);
  }
  for (const device_handle& h : all) limits.clusters = limits.clusters && h.has_clusters != 0;
  return limits;
}

}  // namespace

result communicator::connect_device(std::optional<int> wanted) {
  const bool possible = parameters_.use_gpu && ranks_ <= device_capacity;
  const std::int32_t mine = !possible ? -1 : wanted ? *wanted : device_side::current_device();
  XYL_TRY(peers_->exchange(&mine, devices_.data(), sizeof mine));
  const auto without = std::find(devices_.begin(), devices_.end(), -1);
  if (without != devices_.end()) {
    try {
      no_device_reason_ = format_text("rank %d has no CUDA device (or XYLEM_GPU=never, or more than %d ranks)",
                                      static_cast<int>(without - devices_.begin()), device_capacity);
    } catch (const std::bad_alloc&) {
      // Only the sentence is missing; the other ranks go on to the next exchange.
    }
    return {};
  }
  device_number_ = mine;
  // Meanwhile: the devices take longer.
  if (rank_ == 0 && parameters_.topology_file.empty()) (void)topo::this_machine();

  const layout map = layout::make(static_cast<std::uint32_t>(ranks_), device_blocks, device_packet_bytes,
                                  device_bulk_bytes, device_message_bytes);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  result made = device_side::create(mine, map, peers_->workspace(rank_), page, parameters_.timeout_ns, device_);
  result agreed = peers_->agree(std::move(made));

  device_handles_.resize(static_cast<std::size_t>(ranks_));
  std::vector<device_handle>& handles = device_handles_;
  if (agreed.ok()) {
    XYL_TRY(peers_->exchange(&device_->handle(), handles.data(), sizeof(device_handle)));
    // Before anything is written over a link, it is proven in another process.
    XYL_TRY(probe_links(agreed));
  }
  if (agreed.ok()) agreed = peers_->agree(device_->connect(handles, rank_));
  if (agreed.ok()) {
    const std::vector<int> sharing = ranks_on_same_gpu(handles);
    selection_.max_blocks = co_resident_blocks(handles, sharing);
    fused_limits_ = co_resident_fused(handles, sharing);
    const bool is_shared = std::any_of(sharing.begin(), sharing.end(), [](int ranks) { return ranks > 1; });
    const launch_overlap automatic = is_shared ? launch_overlap::late : launch_overlap::early;
    on_one_gpu_ = std::all_of(sharing.begin(), sharing.end(), [&](int ranks) { return ranks == ranks_; });
    device_->overlap(parameters_.overlap == launch_overlap::automatic ? automatic : parameters_.overlap);
  }
  if (agreed.ok() && selection_.max_blocks == 0)
    agreed =
        error(xylSystemError, "too many ranks share one GPU: not one block of each fits on it at the same time");
  if (agreed.ok()) {
    device_->wait_at_most(check_deadline_ns);
    std::unique_ptr<kernel_check> check;
    agreed = peers_->agree(kernel_check::create(*device_, rank_, ranks_, check));
    if (agreed.ok()) agreed = peers_->agree(check->run(fused_limits_.blocks, fused_limits_.clusters));
    device_->wait_at_most(parameters_.timeout_ns);
    // A wait that was given up elsewhere may have ended a check here that had just succeeded.
    const bool stopped = waits_->out_of_service();
    result all = peers_->agree(agreed.ok() && stopped
                                   ? error(xylRemoteError, "the check of the kernels was given up by another rank")
                                   : result());
    if (agreed.ok()) agreed = std::move(all);
  }
  if (!agreed.ok()) {
    no_device_reason_ = agreed.text();
    // Nobody's memory is freed before everybody has let go of it.
    if (device_) device_->disconnect();
    XYL_TRY(peers_->agree({}));
    device_.reset();
    device_handles_.clear();
    // No kernel of the check is left now that could give up once more, and all ranks come here. That one of them
    // has died would have ended an agreement.
    XYL_TRY(peers_->agree({}));
    waits_->return_to_service();
    XYL_TRY(peers_->agree({}));
    log_line(log_level::warn, rank_, "device memory cannot be used: %s; host memory still works",
             no_device_reason_.c_str());
  }
  return {};
}

}  // namespace xyl
