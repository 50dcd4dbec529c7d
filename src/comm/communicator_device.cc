// SPDX-License-Identifier: BSD-3-Clause
//
// The device half of a communicator's life: made if every rank has a device, else left out on all ranks alike, with
// the reason kept for whoever passes a device pointer. Devices reach each other's memory, or all meet in host
// memory.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <vector>

#include "base/log.hpp"
#include "base/out_of_memory.hpp"
#include "comm/communicator.hpp"
#include "comm/machine_facts.hpp"
#include "exec/device_check.hpp"
#include "exec/dispatch.hpp"
#include "os/numa.hpp"

namespace xyl {

namespace {

// Budgets of one slot of a device workspace, shared by all sources: 40 MiB in all, rings included, with eight
// ranks.
constexpr std::uint64_t device_packet_bytes = 2 << 20;
constexpr std::uint64_t device_bulk_bytes = 16 << 20;
// In lines of 128 bytes: a message of 2 MB between two ranks; more, who use them only if they are told to, have
// 15 KB from each.
constexpr std::uint64_t device_wide_bytes(int ranks) {
  return ranks <= 2 ? 9 << 18 : std::uint64_t{16 << 10} * static_cast<unsigned>(ranks);
}
// Of all pairs' rings. Each of two ranks has a GPU's whole link to itself.
constexpr std::uint64_t device_message_bytes(int ranks) { return ranks <= 2 ? 4 << 20 : 2 << 20; }
// Blocks have flags for every rank: 1.5 MB of them with four ranks and with eight.
constexpr std::uint32_t device_blocks(int ranks) { return ranks <= 4 ? 128 : 64; }
// Four chunks of 4 MB that copy engines move, and their results: in host memory, or where somebody wants it in the
// devices'.
constexpr std::uint64_t device_copy_bytes = 32 << 20;
// Ranks are at the same place when they check their kernels; the longest they may be apart.
constexpr std::int64_t check_deadline_ns = 30'000'000'000;

// Of all ranks', rank 0's counts.
struct staging_nodes {
  std::array<std::int32_t, device_capacity> of_rank;
};

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
  int least = static_cast<int>(device_blocks(static_cast<int>(all.size())));
  for (std::size_t i = 0; i < all.size(); ++i) least = std::min(least, all[i].max_blocks / (2 * sharing[i]));
  return static_cast<unsigned>(std::max(least, 0));
}

unsigned co_resident_pull(const std::vector<device_handle>& all, const std::vector<int>& sharing) {
  std::vector<device_handle> as_if = all;
  for (device_handle& h : as_if) h.max_blocks = h.max_pull_blocks;
  return co_resident_blocks(as_if, sharing);
}

// The same for the fused kernels, by form. Rows need whole clusters of blocks, which the division keeps.
fused_limits co_resident_fused(const std::vector<device_handle>& all, const std::vector<int>& sharing) {
  fused_limits limits;
  for (std::size_t form = 0; form < device_fused_forms; ++form) {
    std::vector<device_handle> as_if = all;
    for (device_handle& h : as_if) h.max_blocks = h.max_fused_blocks[form];
    limits.blocks[form] = co_resident_blocks(as_if, sharing);
    for (device_handle& h : as_if) h.max_blocks = h.max_clustered_blocks[form];
    limits.clustered[form] = co_resident_blocks(as_if, sharing);
  }
  return limits;
}

// Whether two ranks are of the same process and on the same GPU.
bool share_process_and_gpu(const std::vector<device_handle>& all) {
  for (std::size_t p = 0; p < all.size(); ++p)
    for (std::size_t q = 0; q < p; ++q)
      if (std::memcmp(all[p].process, all[q].process, sizeof all[p].process) == 0 &&
          std::memcmp(all[p].uuid, all[q].uuid, sizeof all[p].uuid) == 0)
        return true;
  return false;
}

}  // namespace

result communicator::connect_device(std::optional<int> wanted) {
  const bool possible = parameters_.use_gpu && ranks_ <= device_capacity;
  const device_wish mine{!possible ? -1
                         : wanted  ? *wanted
                                   : device_side::current_device(),
                         static_cast<std::int32_t>(parameters_.peer_to_peer),
                         parameters_.copy_engine_bytes.value_or(0) != 0};
  XYL_TRY(peers_->exchange(&mine, devices_.data(), sizeof mine));
  const auto without =
      std::find_if(devices_.begin(), devices_.end(), [](const device_wish& w) { return w.device < 0; });
  if (without != devices_.end()) {
    try {
      no_device_reason_ = format_text("rank %d has no CUDA device (or XYLEM_GPU=never, or more than %d ranks)",
                                      static_cast<int>(without - devices_.begin()), device_capacity);
    } catch (const std::bad_alloc&) {
      // Only the sentence is missing; the other ranks go on to the next exchange.
    }
    return {};
  }
  device_number_ = mine.device;
  // Meanwhile: the devices take longer.
  if (rank_ == 0 && parameters_.topology_file.empty()) (void)topo::this_machine();

  const layout map = layout::make(static_cast<std::uint32_t>(ranks_), device_blocks(ranks_), device_packet_bytes,
                                  device_bulk_bytes, device_message_bytes(ranks_), 4, device_copy_bytes,
                                  device_wide_bytes(ranks_));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Rank 0's environment counts.
  const auto use = static_cast<peer_to_peer_use>(devices_.front().peer_to_peer);
  const bool straight = ranks_ == 1 || use != peer_to_peer_use::never;
  result made = device_side::create(mine.device, map, peers_->workspace(rank_), page, parameters_.timeout_ns,
                                    straight && devices_.front().copies != 0, device_);
  result agreed = peers_->agree(std::move(made));

  device_handles_.resize(static_cast<std::size_t>(ranks_));
  if (agreed.ok()) {
    XYL_TRY(peers_->exchange(&device_->handle(), device_handles_.data(), sizeof(device_handle)));
    if (straight) {
      // Before anything is written over a link, it is proven in another process.
      XYL_TRY(probe_links(agreed));
      if (agreed.ok()) XYL_TRY(try_device(false, agreed));
    }
    is_staged_ = !straight || (!agreed.ok() && ranks_ > 1 && use == peer_to_peer_use::automatic);
    if (is_staged_) {
      staging_reason_ = straight ? agreed.text() : "XYLEM_P2P=0";
      XYL_TRY(try_device(true, agreed));
      if (agreed.ok())
        log_line(straight ? log_level::warn : log_level::info, rank_,
                 "GPUs do not write into each other's memory, but meet in host memory: %s",
                 staging_reason_.c_str());
    }
  }
  if (!agreed.ok()) {
    no_device_reason_ = agreed.text();
    is_staged_ = false;
    device_.reset();
    device_handles_.clear();
    log_line(log_level::warn, rank_, "device memory cannot be used: %s; host memory still works",
             no_device_reason_.c_str());
  }
  return {};
}

// Collective: the workspaces in the devices' memory or, staged, in host memory, and a check of the kernels there.
// All ranks get the same verdict; after a bad one all is as before, so that the other way can be tried.
result communicator::try_device(bool staged, result& verdict) {
  result connected;
  if (staged) connected = make_staging();
  if (connected.ok())
    connected = or_out_of_memory([&] { return device_->connect(device_handles_, rank_, staging_); });
  verdict = peers_->agree(std::move(connected));
  if (verdict.ok()) {
    const std::vector<int> sharing = ranks_on_same_gpu(device_handles_);
    selection_.max_blocks = co_resident_blocks(device_handles_, sharing);
    selection_.max_pull_blocks = co_resident_pull(device_handles_, sharing);
    fused_limits_ = co_resident_fused(device_handles_, sharing);
    const bool is_shared = std::any_of(sharing.begin(), sharing.end(), [](int ranks) { return ranks > 1; });
    on_one_gpu_ = std::all_of(sharing.begin(), sharing.end(), [&](int ranks) { return ranks == ranks_; });
    XYL_TRY(settle_sync_paths(is_shared, staged, verdict));
  }
  if (verdict.ok() && (selection_.max_blocks == 0 || selection_.max_pull_blocks == 0))
    verdict =
        error(xylSystemError, "too many ranks share one GPU: not one block of each fits on it at the same time");
  if (verdict.ok()) {
    device_->wait_at_most(check_deadline_ns);
    std::unique_ptr<kernel_check> check;
    verdict = peers_->agree(kernel_check::create(*device_, rank_, ranks_, check));
    if (verdict.ok())
      verdict = peers_->agree(
          check->run(fused_limits_.blocks, fused_limits_.has_clusters(), !share_process_and_gpu(device_handles_)));
    device_->wait_at_most(parameters_.timeout_ns);
    // A wait that was given up elsewhere may have ended a check here that had just succeeded.
    const bool stopped = waits_->out_of_service();
    result all = peers_->agree(verdict.ok() && stopped
                                   ? error(xylRemoteError, "the check of the kernels was given up by another rank")
                                   : result());
    if (verdict.ok()) verdict = std::move(all);
  }
  if (verdict.ok()) return {};
  // Nobody's memory is freed, or cleared, before everybody has let go of it.
  result let_go = device_->drain();
  device_->disconnect();
  if (staging_) staging_->depart();
  XYL_TRY(peers_->agree({}));
  staging_.reset();
  if (let_go.ok()) let_go = device_->reset();
  // No kernel of the check is left now that could give up once more, and all ranks come here. That one of them
  // has died would have ended an agreement.
  XYL_TRY(peers_->agree({}));
  waits_->return_to_service();
  // A device that cannot be cleared is of no use in another way either; what that led to is said there.
  if (!let_go.ok()) log_line(log_level::info, rank_, "after the check of the kernels: %s", let_go.text().c_str());
  return peers_->agree({});
}

// Collective. This rank's window lies on the node that its GPU is at, since what it polls should be near, unless
// rank 0's plan takes it from there, where a node cannot bear the traffic of all GPUs at it.
result communicator::make_staging() {
  staging_nodes mine;
  std::vector<staging_nodes> all;
  mine.of_rank.fill(-1);
  const device_handle& own = device_handles_[static_cast<std::size_t>(rank_)];
  int node = -1;
  result ready;
  try {
    all.resize(static_cast<std::size_t>(ranks_));
    if (rank_ == 0) {
      const std::vector<int> planned = bounce_nodes(planning_facts());
      std::copy(planned.begin(), planned.end(), mine.of_rank.begin());
    }
    node = numa_node_of_pci("",
                            format_text("%04x:%02x:%02x.0", static_cast<unsigned>(own.pci_domain),
                                        static_cast<unsigned>(own.pci_bus), static_cast<unsigned>(own.pci_device)));
  } catch (const std::exception& e) {
    ready = error(xylSystemError, "placing windows in host memory: %s", e.what());
  }
  XYL_TRY(peers_->agree(std::move(ready)));
  XYL_TRY(peers_->exchange(&mine, all.data(), sizeof mine));
  // A plan of a machine whose GPUs are nobody knows where is no reason to prefer a node.
  if (const int planned = all[0].of_rank[static_cast<std::size_t>(rank_)]; node >= 0 && planned >= 0)
    node = planned;
  const preferred_numa_node near(node);
  return or_out_of_memory([&]() -> result {
    std::unique_ptr<peer_group> made;
    XYL_TRY(peer_group::create(
        rank_,
        [this](const void* send, void* all, std::size_t bytes) -> int {
          return peers_->exchange(send, all, bytes).code();
        },
        device_->map(), made));
    staging_ = std::move(made);
    return {};
  });
}

}  // namespace xyl
