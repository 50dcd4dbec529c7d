// SPDX-License-Identifier: BSD-3-Clause
//
// How ranks probe the links between them when a communicator is made: rank 0 says whether and what, all do it, and
// every rank comes to the same findings from the same answers. What a person forbids is not tried.
#include <cstring>
#include <new>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "comm/communicator.hpp"
#include "comm/machine_facts.hpp"
#include "comm/probing.hpp"
#include "topo/probe_cache.hpp"

namespace xyl {

namespace {

// Of all ranks', rank 0's counts.
struct instruction {
  topo::probe_order order;
  char forbidden[256];  // why links must not be used, in a sentence; "": they may
};

template <class F>
result guarded(F step) {
  try {
    return step();
  } catch (const std::exception& e) {
    return error(xylSystemError, "probing: %s", e.what());
  }
}

}  // namespace

result communicator::probe_links(result& verdict) {
  std::vector<instruction> instructions;
  instruction mine;
  std::memset(&mine, 0, sizeof mine);
  probe_decision decision;
  planning_input in = planning_facts();
  XYL_TRY(peers_->agree(guarded([&] {
    instructions.resize(static_cast<std::size_t>(ranks_));
    if (rank_ != 0) return result();
    std::strncpy(mine.forbidden, forbidden_link(in).c_str(), sizeof mine.forbidden - 1);
    if (mine.forbidden[0] != '\0') return result();
    decision = decide_probe(in);
    mine.order = decision.order;
    return result();
  })));
  XYL_TRY(peers_->exchange(&mine, instructions.data(), sizeof mine));
  const topo::probe_order& order = instructions[0].order;
  std::optional<probe_run> probing;
  probed_gpus gpus;
  std::uint8_t device[16] = {};
  if (!device_handles_.empty())
    std::memcpy(device, device_handles_[static_cast<std::size_t>(rank_)].uuid, sizeof device);
  XYL_TRY(peers_->agree(guarded([&]() -> result {
    if (!order.plausible(static_cast<std::uint32_t>(ranks_)) ||
        (order.run != 0 && (order.on_host != 0) != device_handles_.empty()))
      return error(xylInvalidUsage, "the allgather delivered something else than rank 0's order of a probe");
    if (order.run == 0) return {};
    probing.emplace(order, rank_, device, helper_path(parameters_.probe_helper));
    gpus = list_gpus(in);
    return {};
  })));
  if (const char* why = instructions[0].forbidden; why[0] != '\0') {
    verdict = error(xylSystemError, "%.*s", static_cast<int>(strnlen(why, sizeof instructions[0].forbidden)), why);
    return {};
  }
  probe_note_ = std::move(decision.note);
  if (order.run == 0) {
    probe_ = std::move(decision.kept);
    return {};
  }

  const std::int64_t began = now_ns();
  XYL_TRY(probing->run(
      [this](const void* mine, void* all, std::size_t bytes) { return peers_->exchange(mine, all, bytes); }));
  XYL_TRY(peers_->agree(guarded([&] {
    probe_ = topo::evaluate(order, gpus.gpu_of_rank, std::move(gpus.names), probing->answers());
    probe_->seconds = static_cast<double>(now_ns() - began) * 1e-9;
    const std::string veto = probe_->veto();
    if (!veto.empty()) verdict = error(xylSystemError, "%s", veto.c_str());
    if (rank_ == 0) keep_probe(decision, in);
    return result();
  })));
  return {};
}

// What cannot be kept is measured again next time.
void communicator::keep_probe(const probe_decision& decision, const planning_input& in) {
  log_line(log_level::info, rank_, "links probed in %.2f s", probe_->seconds);
  // Without a graph they go by the numbers alone; the description says what comes of the graph's.
  for (const topo::finding& f : topo::find_probed_advice(*probe_, {}))
    log_line(log_level::info, rank_, "%s: %s %s", f.title.c_str(), f.evidence.c_str(), f.fix.c_str());
  if (!decision.may_keep || !probe_->worth_keeping()) return;
  if (result kept = topo::store_probe(*in.cache_folder, decision.key, *probe_); !kept.ok())
    probe_note_ = "The probe's results are not kept: " + kept.text();
}

}  // namespace xyl
