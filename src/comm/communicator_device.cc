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
#include "exec/dispatch.hpp"

namespace xyl {

namespace {

// Budgets of one slot of a device workspace, shared by all sources: 36 MB in all with eight ranks.
constexpr std::uint64_t device_packet_bytes = 2 << 20;
constexpr std::uint64_t device_bulk_bytes = 16 << 20;
constexpr std::uint32_t device_blocks = 64;

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

}  // namespace

result communicator::connect_device() {
  const std::int32_t mine = parameters_.use_gpu && ranks_ <= device_capacity ? device_side::current_device() : -1;
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

  const layout map =
      layout::make(static_cast<std::uint32_t>(ranks_), device_blocks, device_packet_bytes, device_bulk_bytes);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  result made = device_side::create(mine, map, peers_->workspace(rank_), page, parameters_.timeout_ns, device_);
  result agreed = peers_->agree(std::move(made));

  std::vector<device_handle> handles(static_cast<std::size_t>(ranks_));
  if (agreed.ok()) {
    XYL_TRY(peers_->exchange(&device_->handle(), handles.data(), sizeof(device_handle)));
    agreed = peers_->agree(device_->connect(handles, rank_));
  }
  if (agreed.ok()) {
    const std::vector<int> sharing = ranks_on_same_gpu(handles);
    selection_.max_blocks = co_resident_blocks(handles, sharing);
    const bool is_shared = std::any_of(sharing.begin(), sharing.end(), [](int ranks) { return ranks > 1; });
    const launch_overlap automatic = is_shared ? launch_overlap::late : launch_overlap::early;
    device_->overlap(parameters_.overlap == launch_overlap::automatic ? automatic : parameters_.overlap);
  }
  if (agreed.ok() && selection_.max_blocks == 0)
    agreed =
        error(xylSystemError, "too many ranks share one GPU: not one block of each fits on it at the same time");
  if (!agreed.ok()) {
    no_device_reason_ = agreed.text();
    // Nobody's memory is freed before everybody has let go of it.
    if (device_) device_->disconnect();
    XYL_TRY(peers_->agree({}));
    device_.reset();
    log_line(log_level::warn, rank_, "device memory cannot be used: %s; host memory still works",
             no_device_reason_.c_str());
  }
  return {};
}

result communicator::all_reduce_device(const void* send, void* recv, std::size_t count, int type, int op,
                                       unsigned element_bytes, xylStream_t stream) {
  const call_record record = record_of(collective::all_reduce, count, type, op, true);
  if (waits_->out_of_service()) return explain(record);
  const algorithm how = selection_.choose(selection_.device, count * element_bytes);
  const std::uint64_t step = chunk_elements(how, device_->map(), selection_.device.chunk_bytes, element_bytes);
  std::uint64_t done = 0;
  do {
    const std::uint64_t chunk = std::min<std::uint64_t>(step, count - done);
    XYL_TRY(device_->all_reduce({how, selection_.blocks_for(how, chunk * element_bytes)},
                                static_cast<const std::byte*>(send) + done * element_bytes,
                                static_cast<std::byte*>(recv) + done * element_bytes, chunk, record, stream));
    done += chunk;
  } while (done < count);
  return {};
}

}  // namespace xyl
