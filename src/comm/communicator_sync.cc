// SPDX-License-Identifier: BSD-3-Clause
//
// How the devices of a communicator synchronise: tried on the real peers when it is made, chosen alike on all ranks
// by what rank 0's environment wishes, and said where a person looks for it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <vector>

#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/sync_link.hpp"
#include "comm/sync_settling.hpp"
#include "topo/discovery.hpp"

namespace xyl {

namespace {

// What each rank tells before the trials; of wishes and link rank 0's count.
struct sync_introduction {
  sync_wishes wishes;
  sync_link link;
  std::uint32_t can_overlap;
  std::uint32_t has_line_kernels;
};

// How long a start waits for a machine that does not want to be read.
constexpr std::chrono::milliseconds patience{2000};

// Rank 0. A file that describes the machine may describe another one: it guarantees nothing.
sync_link find_link(const parameters& p, bool on_one_gpu, std::span<const device_handle> devices) {
  if (on_one_gpu) return sync_link::one_gpu;
  std::shared_ptr<const topo::machine_view> view;
  if (!p.topology_file.empty() || !topo::this_machine().wait(patience, view).ok()) return sync_link::other;
  return weakest_link(view->g, devices);
}

}  // namespace

// Collective, of ranks whose devices are connected. agreed: success, or why all ranks do without devices. The
// result is an error of the communicator: of the exchanges, or of what XYLEM_SYNC asks for.
result communicator::settle_sync_paths(bool is_shared, bool staged, result& agreed) {
  std::vector<sync_introduction> all;
  std::vector<trial_finding> room;
  sync_introduction mine{sync_wishes::of(parameters_), sync_link::other, device_->can_overlap() ? 1u : 0u,
                         device_->has_line_kernels() ? 1u : 0u};
  result ready;
  try {
    // Where workspaces lie in host memory, no guarantee of a GPU or of NVLink is of use.
    if (rank_ == 0 && staged) mine.link = sync_link::host_memory;
    if (rank_ == 0 && !staged) mine.link = find_link(parameters_, on_one_gpu_, device_handles_);
    all.resize(static_cast<std::size_t>(ranks_));
    room.resize(static_cast<std::size_t>(ranks_));
  } catch (const std::bad_alloc&) {
    ready = error(xylSystemError, "out of memory");
  }
  if (ready.ok()) ready = device_->prepare_trials();
  // Of what stops one rank here, all do without devices.
  agreed = peers_->agree(std::move(ready));
  if (!agreed.ok()) return {};

  XYL_TRY(peers_->exchange(&mine, all.data(), sizeof mine));
  const sync_wishes wishes = all[0].wishes;
  if (!wishes.plausible() || all[0].link > sync_link::other)
    return error(xylInvalidUsage, "the allgather delivered something else than rank 0's wishes for sync paths");
  sync_facts facts;
  facts.ranks = ranks_;
  facts.least_sm = device_handles_[0].sm;
  for (const device_handle& h : device_handles_) facts.least_sm = std::min(facts.least_sm, h.sm);
  facts.link = all[0].link;
  facts.can_overlap = facts.has_line_kernels = true;
  for (const sync_introduction& one : all) {
    facts.can_overlap = facts.can_overlap && one.can_overlap != 0;
    facts.has_line_kernels = facts.has_line_kernels && one.has_line_kernels != 0;
  }
  facts.allowed_overlap = is_shared ? launch_overlap::late : launch_overlap::early;

  sync_trials trials;
  const auto attempt = [this](const trial_plan& plan, trial_finding& out) {
    result tried = device_->try_path(plan, out);
    if (!tried.ok())
      log_line(log_level::warn, rank_, "the self-test of %s could not be run: %s", name_of(plan.what.path),
               tried.text().c_str());
    return tried;
  };
  const auto exchange = [this](const void* one, void* of_all, std::size_t bytes) {
    return peers_->exchange(one, of_all, bytes);
  };
  XYL_TRY(try_sync_paths(facts, attempt, exchange, {}, room, trials));
  device_->end_trials();

  try {
    sync_ = decide(facts, wishes, trials);
    if (rank_ == 0) {
      for (const std::string& line : sync_.dropped)
        log_line(log_level::warn, rank_, "sync path %s; it is not used", line.c_str());
      if (parameters_.list_sync) static_cast<void>(std::fputs(text_of(sync_.rows).c_str(), stderr));
    }
  } catch (const std::bad_alloc&) {
    sync_.verdict = error(xylSystemError, "out of memory");
  }
  device_->use(sync_.choice);
  const bool is_wish = sync_.verdict.code() == xylInvalidUsage;
  agreed = peers_->agree(std::move(sync_.verdict));
  return is_wish ? std::move(agreed) : result();
}

}  // namespace xyl
