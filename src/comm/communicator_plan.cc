// SPDX-License-Identifier: BSD-3-Clause
//
// How the ranks come to one plan: rank 0 makes it, all others get it over the exchange, and its description, which
// is long, through the workspaces that all ranks have by then. Whoever got something else than what rank 0 can have
// sent does not take part.
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/log.hpp"
#include "base/out_of_memory.hpp"
#include "comm/communicator.hpp"
#include "comm/description.hpp"
#include "topo/cache_file.hpp"

namespace xyl {

namespace {

// How long a start waits for a machine that does not want to be read.
constexpr std::chrono::milliseconds patience{2000};

}  // namespace

// What rank 0 decides by.
planning_input communicator::planning_facts() {
  planning_input in{.wishes = parameters_, .hosts = hosts_, .devices = device_handles_};
  in.max_blocks = selection_.max_blocks;
  in.max_pull_blocks = std::max(1u, selection_.max_pull_blocks);
  in.can_read = reading_.allowed();
  in.is_staged = is_staged_;
  in.staging_reason = staging_reason_;
  in.patience = patience;
  in.cache_folder = user_cache_folder();
  in.probe = probe_ ? &*probe_ : nullptr;
  in.probe_note = probe_note_;
  in.measured = tuned_ ? &*tuned_ : nullptr;
  if (!device_handles_.empty()) {
    in.device_map = device_->map();
    in.machine = &topo::this_machine();
    in.sync = &sync_;
  }
  return in;
}

// Rank 0.
result communicator::make_choice(agreed_choice& mine) {
  planned made;
  try {
    XYL_TRY(xyl::make_choice(planning_facts(), made));
  } catch (const std::exception& e) {
    return error(xylSystemError, "planning: %s", e.what());
  }
  mine = made.agreed;
  description_ = std::move(made.description);
  tuning_key_ = std::move(made.key);
  if (mine.measure == 0) log_line(log_level::info, rank_, "%s", made.line.c_str());
  return {};
}

// What is measured is measured with the first choice, and decides the second.
result communicator::agree_on_selection() {
  std::uint64_t measure = 0;
  XYL_TRY(agree_once(measure));
  if (measure != 0) {
    topo::tuning tuned;
    XYL_TRY(measure_thresholds(measure == 2, tuned));
    tuned_ = std::move(tuned);
    if (rank_ == 0) keep_tuning();
    XYL_TRY(agree_once(measure));
  }
  std::vector<agreed_choice>().swap(all_choices_);
  return {};
}

// What cannot be kept is measured again next time.
void communicator::keep_tuning() {
  try {
    const std::optional<std::string> folder = user_cache_folder();
    if (!folder || tuned_->measured.empty()) return;
    result kept = topo::make_folder(*folder);
    if (kept.ok()) kept = topo::store_tuning(*folder + "/" + topo::file_name_of(tuning_key_), tuning_key_, *tuned_);
    if (!kept.ok()) probe_note_ += (probe_note_.empty() ? "" : " ") + ("Thresholds are not kept: " + kept.text());
  } catch (const std::bad_alloc&) {
    log_line(log_level::info, rank_, "measured thresholds are not kept: out of memory");
  }
}

result communicator::agree_once(std::uint64_t& measure) {
  agreed_choice mine;
  std::memset(&mine, 0, sizeof mine);
  XYL_TRY(peers_->agree(rank_ == 0 ? make_choice(mine) : result()));
  XYL_TRY(peers_->exchange(&mine, all_choices_.data(), sizeof mine));
  measure = all_choices_[0].measure;
  XYL_TRY(peers_->agree(or_out_of_memory([&] { return accept(all_choices_[0]); })));
  return share_description();
}

result communicator::accept(const agreed_choice& agreed) {
  if (!agreed.plausible(static_cast<std::uint32_t>(ranks_)))
    return error(xylInvalidUsage, "the allgather delivered something else than rank 0's choice of algorithms");
  if (agreed.choice.sync != (device_ ? sync_.choice.packed() : 0))
    return error(xylInternalError, "rank %d and rank 0 came to different sync paths", rank_);
  selection_ = agreed.choice;
  selection_hash_ = selection_.hash();
  seat_ = host_call_.ring = seat_of(agreed.table, rank_);
  description_.resize(agreed.description_bytes);
  return {};
}

result communicator::share_description() {
  if (ranks_ == 1) return {};
  request r;
  r.what = collective::broadcast;
  r.type = xylUint8;
  r.count = description_.size();
  r.send = r.recv = description_.data();
  return move_host(r);
}

result communicator::describe(std::string& out) const {
  own_facts own;
  own.rank = rank_;
  own.device = device();
  if (device_) own.overlap = device_->in_use().packet_overlap;
  {
    const std::lock_guard guard(windows_guard_);
    for (std::size_t number = 0; number < windows_.all().size(); ++number)
      if (const auto& w = windows_.all()[number])
        own.windows.push_back({number, w->bytes, w->kind != memory_kind::host, w->why_staged});
  }
  own.no_device_reason = no_device_reason_;
  return describe_for(description_, own, out);
}

}  // namespace xyl
