// SPDX-License-Identifier: BSD-3-Clause
#include "comm/sync_settling.hpp"

#include <new>

namespace xyl {

namespace {

// Of a trial at full speed. Trips: rounds of a launch, so that launching does not count; launches one after the
// other: of one round each, as calls are.
constexpr std::uint32_t trip_rounds = 32, trip_launches = 5, chain_launches = 33;
// Where ranks take turns on their GPU.
constexpr std::uint32_t slow_rounds = 2, slow_launches = 2;
// More rounds than any trial has: numbers rise from trial to trial.
constexpr std::uint32_t numbers_of_trial = 1 << 12;

class settling {
 public:
  settling(const sync_facts& facts, const trial_function& attempt, const exchange_function& exchange,
           const sync_limits& limits, std::span<trial_finding> room)
      : facts_(facts), attempt_(attempt), exchange_(exchange), limits_(limits), room_(room) {}

  result run(sync_trials& trials) {
    trials = {};
    // With time, to see whether the others' limits are fair: ranks that take turns on their GPU are slow in every
    // way, a slow path in one.
    for (const sync_path path : {sync_path::flag, sync_path::packet}) {
      trial_plan plan = plan_of(path, slow_rounds, slow_launches);
      plan.what.limit_ns = limits_.first_ns;
      XYL_TRY(together(plan, trials.first));
      slow_ = trials.first.passed() && trials.first.found.round_ns > limits_.slow_round_ns;
      if (!slow_ || ended_) break;
    }
    for (const path_facts& one : path_table()) {
      if (!is_allowed(one, facts_)) continue;
      path_trials& t = trials.of_path[static_cast<int>(one.path)];
      XYL_TRY(together(
          slow_ ? plan_of(one.path, slow_rounds, slow_launches) : plan_of(one.path, trip_rounds, trip_launches),
          t.trips));
      if (slow_ || !t.trips.passed()) continue;
      trial_plan plan = plan_of(one.path, 1, chain_launches);
      XYL_TRY(together(plan, t.plain));
      plan.what.overlap = facts_.allowed_overlap;
      if (facts_.can_overlap && t.plain.passed()) XYL_TRY(together(plan, t.overlapped));
    }
    return {};
  }

 private:
  trial_plan plan_of(sync_path path, std::uint32_t rounds, std::uint32_t launches) const {
    trial_plan plan;
    plan.what.path = path;
    plan.what.rounds = rounds;
    plan.what.launches = launches;
    plan.what.limit_ns = slow_ ? limits_.first_ns : limits_.launch_ns;
    plan.meeting_ns = limits_.meeting_ns;
    return plan;
  }

  // Twice where a rank waited in vain: it may have been this process that was late, but hardly both times.
  result together(const trial_plan& plan, joint_finding& out) {
    XYL_TRY(once(plan, out));
    return out.failed() && out.found.verdict == trial_verdict::late ? once(plan, out) : result();
  }

  // A rank that could not run it tells the others in the same exchange. Then there is no more to try: what a rank
  // cannot launch now it cannot launch later, and its peers would wait.
  result once(trial_plan plan, joint_finding& out) {
    if (ended_) return {};
    plan.begin = next_ += numbers_of_trial;
    trial_finding mine;
    try {
      if (!attempt_(plan, mine).ok()) mine.verdict = trial_verdict::not_launched;
    } catch (const std::bad_alloc&) {
      mine.verdict = trial_verdict::not_launched;
    }
    XYL_TRY(exchange_(&mine, room_.data(), sizeof mine));
    out = join_findings(room_, plan);
    ended_ = out.ended();
    return {};
  }

  const sync_facts& facts_;
  const trial_function& attempt_;
  const exchange_function& exchange_;
  const sync_limits& limits_;
  const std::span<trial_finding> room_;
  std::uint32_t next_ = 0;
  bool slow_ = false;
  bool ended_ = false;
};

}  // namespace

result try_sync_paths(const sync_facts& facts, const trial_function& attempt, const exchange_function& exchange,
                      const sync_limits& limits, std::span<trial_finding> room, sync_trials& out) {
  return settling(facts, attempt, exchange, limits, room).run(out);
}

}  // namespace xyl
