// SPDX-License-Identifier: BSD-3-Clause
//
// The choice of a sync path from made-up findings of all ranks, and the whole of it with ranks as threads and
// planted paths: what never completes and what completes slowly is dropped, with a line that says why.
#include <gtest/gtest.h>

#include "comm/sync_settling.hpp"
#include "exec/trial_machine.hpp"

namespace xyl::test {
namespace {

constexpr sync_path every_path[] = {sync_path::packet, sync_path::wide_packet, sync_path::line_packet,
                                    sync_path::flag,   sync_path::device_flag, sync_path::fenced_flag};

sync_facts facts_of(int ranks, int sm = 90, sync_link link = sync_link::one_gpu) {
  sync_facts f;
  f.ranks = ranks;
  f.least_sm = sm;
  f.link = link;
  f.can_overlap = sm >= 90;
  f.has_line_kernels = true;
  f.allowed_overlap = link == sync_link::one_gpu ? launch_overlap::late : launch_overlap::early;
  return f;
}

// Passed on all ranks in so many ns; the chain of launches a little slower, and faster again with overlap.
trial_finding passed(std::uint64_t ns) {
  trial_finding f;
  f.verdict = trial_verdict::passed;
  f.round_ns = ns;
  f.launch_ns = ns + 2000;
  return f;
}
trial_finding failed(trial_verdict v, int peer) {
  trial_finding f;
  f.verdict = v;
  f.peer = peer;
  f.round = 3;
  f.wanted = 0x12;
  f.seen = 0x34;
  return f;
}
joint_finding of_two(const trial_finding& a, const trial_finding& b) {
  const trial_finding both[] = {a, b};
  trial_plan plan;
  plan.what.limit_ns = 30'000'000;
  plan.what.rounds = 32;
  return join_findings(both, plan);
}
void set(sync_trials& t, sync_path p, const joint_finding& trips, std::uint64_t overlapped_ns = 1) {
  path_trials& one = t.of_path[static_cast<int>(p)];
  one = {};
  one.trips = trips;
  if (!trips.passed()) return;
  one.plain = trips;
  one.overlapped = trips;
  one.overlapped.found.launch_ns = overlapped_ns;
}
// As one would expect it of a good machine.
sync_trials good() {
  sync_trials t;
  t.first = of_two(passed(2500), passed(2600));
  set(t, sync_path::packet, of_two(passed(1000), passed(1100)));
  set(t, sync_path::wide_packet, of_two(passed(900), passed(900)));
  set(t, sync_path::line_packet, of_two(passed(950), passed(950)));
  set(t, sync_path::flag, of_two(passed(2500), passed(2600)));
  set(t, sync_path::device_flag, of_two(passed(2500), passed(2700)));
  set(t, sync_path::fenced_flag, of_two(passed(3000), passed(2900)));
  return t;
}
const sync_row& row(const sync_decision& d, const std::string& name) {
  for (const sync_row& r : d.rows)
    if (r.name == name) return r;
  ADD_FAILURE() << "no row " << name;
  return d.rows.front();
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(sync_paths, a_good_machine_uses_packets_plain_flags_and_overlap) {
  const sync_decision d = decide(facts_of(2), {}, good());
  ASSERT_TRUE(d.verdict.ok()) << d.verdict.text();
  EXPECT_EQ(d.choice,
            (sync_choice{true, true, false, flag_order::release, launch_overlap::late, launch_overlap::late}));
  EXPECT_TRUE(d.dropped.empty());
  ASSERT_EQ(d.rows.size(), 2u * sync_paths);
  EXPECT_TRUE(row(d, "ll").is_chosen);
  EXPECT_TRUE(row(d, "ll+pdl").is_chosen);
  EXPECT_TRUE(row(d, "flag").is_chosen);
  EXPECT_FALSE(row(d, "flag-gpu").is_chosen);
  EXPECT_DOUBLE_EQ(row(d, "ll").trip_us, 1.1) << "of the slowest rank";
  EXPECT_TRUE(row(d, "ll128").is_chosen);
  EXPECT_FALSE(row(d, "ll16").is_chosen) << "with ll128 there is no need of it";
  sync_trials slow = good();
  set(slow, sync_path::wide_packet, of_two(passed(8500), passed(900)));
  EXPECT_FALSE(decide(facts_of(2), {}, slow).choice.wide_packets);
  EXPECT_TRUE(has(row(decide(facts_of(2), {}, slow), "ll128").chosen, "slower"));
  EXPECT_FALSE(decide(facts_of(2), {}, slow).dropped.empty());
  EXPECT_EQ(decide(facts_of(2), {}, slow).choice.lines(), algorithm::line_packet);
  set(slow, sync_path::line_packet, of_two(passed(950), passed(8600)));
  EXPECT_EQ(decide(facts_of(2), {}, slow).choice.lines(), std::nullopt);
  EXPECT_EQ(decide(facts_of(2), {}, slow).dropped.size(), 2u);
  const std::string table = text_of(d.rows);
  for (const char* name : {"ll ", "ll128 ", "ll16 ", "flag ", "flag-gpu ", "fence ", "fence+pdl "})
    EXPECT_TRUE(has(table, name)) << table;
}

TEST(sync_paths, a_path_gives_way_only_to_one_that_is_clearly_faster_on_the_slowest_rank) {
  sync_trials t = good();
  set(t, sync_path::device_flag, of_two(passed(1200), passed(1300)));
  EXPECT_EQ(decide(facts_of(2), {}, t).choice.flags, flag_order::device_release);
  // What orders less may be a little faster: with more to order it gains more.
  set(t, sync_path::device_flag, of_two(passed(1200), passed(2590)));
  EXPECT_EQ(decide(facts_of(2), {}, t).choice.flags, flag_order::device_release);
  set(t, sync_path::device_flag, of_two(passed(1200), passed(2610)));
  EXPECT_EQ(decide(facts_of(2), {}, t).choice.flags, flag_order::release);
  set(t, sync_path::fenced_flag, of_two(passed(1200), passed(2400)));
  EXPECT_EQ(decide(facts_of(2), {}, t).choice.flags, flag_order::release);
  set(t, sync_path::fenced_flag, of_two(passed(1200), passed(2300)));
  EXPECT_EQ(decide(facts_of(2), {}, t).choice.flags, flag_order::fenced);
}

TEST(sync_paths, what_the_machine_does_not_allow_is_not_tried_whatever_it_would_do) {
  for (const path_facts& one : path_table()) {
    EXPECT_FALSE(is_allowed(one, facts_of(2, 60)));
    EXPECT_FALSE(not_allowed(one, facts_of(2, 60)).empty());
    // Every path exists on every newer SM: nothing has an upper bound.
    for (int sm : {75, 80, 86, 89, 90, 100, 103, 120, 121, 200}) EXPECT_TRUE(is_allowed(one, facts_of(2, sm)));
  }
  const auto allowed = [](sync_path p, sync_link link) {
    return is_allowed(path_table()[static_cast<std::size_t>(p)], facts_of(2, 90, link));
  };
  EXPECT_FALSE(allowed(sync_path::wide_packet, sync_link::other));
  EXPECT_TRUE(allowed(sync_path::wide_packet, sync_link::nvlink));
  EXPECT_FALSE(allowed(sync_path::wide_packet, sync_link::host_memory));
  EXPECT_FALSE(allowed(sync_path::device_flag, sync_link::nvlink));
  for (sync_link link : {sync_link::one_gpu, sync_link::nvlink, sync_link::host_memory})
    EXPECT_TRUE(allowed(sync_path::line_packet, link));
  EXPECT_FALSE(allowed(sync_path::line_packet, sync_link::other))
      << "nothing is said of peers without native atomics";
  const path_facts& lines = path_table()[static_cast<std::size_t>(sync_path::line_packet)];
  EXPECT_TRUE(has(not_allowed(lines, facts_of(4)), "between 2 ranks"));
  sync_facts old = facts_of(2);
  old.has_line_kernels = false;
  EXPECT_TRUE(has(not_allowed(lines, old), "CUDA 12.4"));
  for (sync_path p : {sync_path::packet, sync_path::flag, sync_path::fenced_flag})
    EXPECT_TRUE(allowed(p, sync_link::other));
}

TEST(sync_paths, a_failure_on_one_rank_drops_the_path_for_all_with_a_line) {
  sync_trials t = good();
  set(t, sync_path::flag, of_two(passed(2000), failed(trial_verdict::late, 0)));
  const sync_decision d = decide(facts_of(2), {}, t);
  ASSERT_TRUE(d.verdict.ok());
  EXPECT_EQ(d.choice.flags, flag_order::device_release);
  ASSERT_EQ(d.dropped.size(), 1u);
  EXPECT_TRUE(has(d.dropped[0], "flag: rank 1 had nothing of rank 0 in round 3")) << d.dropped[0];
  EXPECT_TRUE(has(row(d, "flag").tested, "limit of 30 ms")) << row(d, "flag").tested;
  EXPECT_EQ(row(d, "flag").chosen, "no");
}

TEST(sync_paths, wrong_data_is_said_rather_than_that_others_waited) {
  sync_trials t = good();
  set(t, sync_path::fenced_flag, of_two(failed(trial_verdict::late, 1), failed(trial_verdict::wrong_data, 0)));
  const sync_decision d = decide(facts_of(2), {}, t);
  ASSERT_EQ(d.dropped.size(), 1u);
  EXPECT_TRUE(has(d.dropped[0], "fence: rank 1 read 0x34 from rank 0 where it had put 0x12")) << d.dropped[0];
}

TEST(sync_paths, slow_packets_are_not_used_and_slow_flags_are_named) {
  sync_trials t = good();
  set(t, sync_path::packet, of_two(passed(1000), passed(200'000)));
  set(t, sync_path::fenced_flag, of_two(passed(90'000), passed(2'000)));
  const sync_decision d = decide(facts_of(2), {}, t);
  ASSERT_TRUE(d.verdict.ok());
  EXPECT_FALSE(d.choice.packets);
  ASSERT_EQ(d.dropped.size(), 2u);
  EXPECT_TRUE(has(d.dropped[0], "ll: a trip takes 200.0 us, one of flag only 2.6")) << d.dropped[0];
  EXPECT_TRUE(has(d.dropped[1], "fence: a trip takes 90.0 us")) << d.dropped[1];
}

TEST(sync_paths, overlap_needs_a_gain_and_the_machine) {
  sync_trials t = good();
  set(t, sync_path::packet, of_two(passed(1000), passed(1000)), 2990);
  sync_decision d = decide(facts_of(2), {}, t);
  EXPECT_EQ(d.choice.packet_overlap, launch_overlap::none);
  EXPECT_EQ(d.choice.flag_overlap, launch_overlap::late);
  EXPECT_TRUE(has(row(d, "ll+pdl").chosen, "no gain"));
  // One that fails is dropped alone.
  t.of_path[0].overlapped = of_two(failed(trial_verdict::wrong_data, 1), passed(1));
  d = decide(facts_of(2), {}, t);
  EXPECT_TRUE(d.choice.packets);
  EXPECT_EQ(d.choice.packet_overlap, launch_overlap::none);
  ASSERT_EQ(d.dropped.size(), 1u);
  EXPECT_TRUE(has(d.dropped[0], "launches that overlap")) << d.dropped[0];
  d = decide(facts_of(2, 89), {}, good());
  EXPECT_EQ(d.choice.packet_overlap, launch_overlap::none);
  EXPECT_TRUE(has(row(d, "ll+pdl").allowed, "SM 90"));
  sync_wishes w;
  w.overlap = launch_overlap::none;
  EXPECT_EQ(decide(facts_of(2), w, good()).choice.flag_overlap, launch_overlap::none);
  w.overlap = launch_overlap::early;
  EXPECT_EQ(decide(facts_of(2), w, t).choice.packet_overlap, launch_overlap::early);
}

TEST(sync_paths, what_loses_data_between_launches_is_not_used_either) {
  sync_trials t = good();
  t.of_path[static_cast<int>(sync_path::flag)].plain = of_two(passed(1), failed(trial_verdict::wrong_data, 0));
  t.of_path[static_cast<int>(sync_path::flag)].overlapped = {};
  const sync_decision d = decide(facts_of(2), {}, t);
  EXPECT_TRUE(d.verdict.ok());
  EXPECT_EQ(d.choice.flags, flag_order::device_release);
  ASSERT_EQ(d.dropped.size(), 1u);
  EXPECT_TRUE(has(d.dropped[0], "flag: launches: rank 1 read 0x34")) << d.dropped[0];
  EXPECT_TRUE(has(row(d, "flag").tested, "rank 1 read 0x34")) << row(d, "flag").tested;
  t.of_path[0].plain = of_two(passed(1), failed(trial_verdict::late, 0));
  EXPECT_FALSE(decide(facts_of(2), {}, t).verdict.ok());
}

TEST(sync_paths, all_failed_means_no_devices_with_the_list) {
  sync_trials t = good();
  for (sync_path p : {sync_path::flag, sync_path::device_flag, sync_path::fenced_flag})
    set(t, p, of_two(failed(trial_verdict::late, 1), failed(trial_verdict::late, 0)));
  const sync_decision d = decide(facts_of(2), {}, t);
  EXPECT_EQ(d.verdict.code(), xylSystemError);
  for (const char* part : {"flag: rank 0", "flag-gpu: rank 0", "fence: rank 0"})
    EXPECT_TRUE(has(d.verdict.text(), part)) << d.verdict.text();
  for (const sync_row& r : d.rows) EXPECT_FALSE(r.is_chosen) << r.name;
  t = good();
  set(t, sync_path::packet, of_two(failed(trial_verdict::wrong_data, 1), passed(1)));
  EXPECT_TRUE(has(decide(facts_of(2), {}, t).verdict.text(), "that every call begins with"));
}

TEST(sync_paths, a_forced_path_is_used_or_refused_with_the_reason) {
  for (sync_path p : every_path)
    for (std::uint32_t overlapped : {0u, 1u}) {
      sync_wishes w;
      w.path = static_cast<std::uint32_t>(p);
      w.overlapped = overlapped;
      const sync_decision d = decide(facts_of(2), w, good());
      ASSERT_TRUE(d.verdict.ok()) << d.verdict.text();
      EXPECT_EQ(d.choice.packets, !is_flag(p));
      EXPECT_EQ(d.choice.wide_packets, p == sync_path::wide_packet);
      EXPECT_EQ(d.choice.line_packets, p == sync_path::line_packet);
      if (is_flag(p)) {
        EXPECT_EQ(d.choice.flags, order_of(p));
      }
      const launch_overlap wanted = overlapped ? launch_overlap::late : launch_overlap::none;
      EXPECT_EQ(is_flag(p) ? d.choice.flag_overlap : d.choice.packet_overlap, wanted);
      EXPECT_TRUE(row(d, name_of(p)).is_chosen);
      EXPECT_EQ(row(d, std::string(name_of(p)) + "+pdl").is_chosen, overlapped != 0);
    }
  sync_wishes w;
  w.path = static_cast<std::uint32_t>(sync_path::device_flag);
  sync_decision d = decide(facts_of(2, 90, sync_link::other), w, good());
  EXPECT_EQ(d.verdict.code(), xylInvalidUsage);
  EXPECT_TRUE(has(d.verdict.text(), "flag-gpu")) << d.verdict.text();
  EXPECT_TRUE(has(d.verdict.text(), "on one GPU")) << d.verdict.text();
  w.path = static_cast<std::uint32_t>(sync_path::flag);
  w.overlapped = 1;
  EXPECT_TRUE(has(decide(facts_of(2, 89), w, good()).verdict.text(), "SM 90"));
  // Where ranks take turns on their GPU, launches are not measured, so no overlap is known to work.
  sync_trials t = good();
  t.of_path[static_cast<int>(sync_path::flag)].overlapped = {};
  EXPECT_TRUE(has(decide(facts_of(2), w, t).verdict.text(), "take turns"));
  t = good();
  set(t, sync_path::flag, of_two(failed(trial_verdict::late, 1), passed(1)));
  EXPECT_TRUE(has(decide(facts_of(2), w, t).verdict.text(), "rank 0 had nothing of rank 1"));
}

TEST(sync_paths, wishes_come_from_the_environment_and_nothing_else_is_believed) {
  parameters p;
  EXPECT_EQ(sync_wishes::of(p).path, sync_wishes::no_path);
  p.forced_sync = sync_path::fenced_flag;
  p.forced_sync_overlaps = true;
  sync_wishes w = sync_wishes::of(p);
  EXPECT_EQ(w.path, 5u);
  EXPECT_EQ(w.overlapped, 1u);
  EXPECT_TRUE(w.plausible());
  w.path = 6;
  EXPECT_FALSE(w.plausible());
}

// The whole of it on threads. What each rank decides must be the same.
sync_decision settle(trial_machine& machine, const sync_limits& limits, int unable_rank = -1) {
  std::vector<sync_decision> all(static_cast<std::size_t>(machine.ranks()));
  meeting_point meeting(machine.ranks());
  machine.on_all_ranks([&](int rank) {
    const auto attempt = [&](const trial_plan& plan, trial_finding& out) -> result {
      if (rank == unable_rank) return error(xylSystemError, "planted");
      out = machine.attempt(rank, plan);
      return {};
    };
    const auto exchange = [&](const void* mine, void* of_all, std::size_t bytes) -> result {
      meeting.exchange(rank, mine, of_all, bytes);
      return {};
    };
    std::vector<trial_finding> room(static_cast<std::size_t>(machine.ranks()));
    sync_trials trials;
    const sync_facts facts = facts_of(machine.ranks());
    const result r = try_sync_paths(facts, attempt, exchange, limits, room, trials);
    EXPECT_TRUE(r.ok());
    all[static_cast<std::size_t>(rank)] = decide(facts, {}, trials);
  });
  for (const sync_decision& d : all) {
    EXPECT_EQ(d.choice, all[0].choice);
    EXPECT_EQ(d.verdict.text(), all[0].verdict.text());
    EXPECT_EQ(text_of(d.rows), text_of(all[0].rows));
  }
  return std::move(all[0]);
}

sync_limits generous() {
  sync_limits limits;
  limits.first_ns = limits.launch_ns = limits.meeting_ns = 60'000'000'000;
  limits.slow_round_ns = UINT64_MAX;
  return limits;
}

TEST(sync_paths, threads_settle_with_everything_tried) {
  trial_machine machine(2, 2);
  const sync_decision d = settle(machine, generous());
  EXPECT_TRUE(d.verdict.ok()) << d.verdict.text();
  for (const sync_row& r : d.rows) {
    EXPECT_EQ(r.tested, "passed") << r.name;
    EXPECT_GT(r.launch_us, 0) << r.name;
  }
}

TEST(sync_paths, planted_paths_are_dropped_and_the_others_work) {
  path_faults faults;
  faults.of[static_cast<int>(sync_path::flag)] = path_fault::never;
  faults.of[static_cast<int>(sync_path::device_flag)] = path_fault::corrupt;
  faults.of[static_cast<int>(sync_path::wide_packet)] = path_fault::never;
  faults.of[static_cast<int>(sync_path::line_packet)] = path_fault::corrupt;
  trial_machine machine(2, 2, faults);
  sync_limits limits = generous();
  // What works has to end within these on machines that do other things too.
  limits.first_ns = 1'000'000'000;
  limits.launch_ns = 6'000'000'000;
  const auto begin = std::chrono::steady_clock::now();
  const sync_decision d = settle(machine, limits);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  ASSERT_TRUE(d.verdict.ok()) << d.verdict.text();
  EXPECT_EQ(d.choice.flags, flag_order::fenced);
  std::string dropped;
  for (const std::string& line : d.dropped) dropped += line + "\n";
  for (const char* part :
       {"flag: rank", "flag-gpu: rank", "ll128: rank", "ll16: rank", "had nothing of rank", "where it had put"})
    EXPECT_TRUE(has(dropped, part)) << dropped;
}

TEST(sync_paths, a_planted_slow_path_is_dropped) {
  path_faults faults;
  faults.of[static_cast<int>(sync_path::packet)] = path_fault::slow;
  faults.of[static_cast<int>(sync_path::flag)] = path_fault::slow;
  faults.delay = std::chrono::milliseconds(100);
  trial_machine machine(2, 1, faults);
  sync_limits limits = generous();
  limits.slow_round_ns = 0;  // few rounds: one takes 100 ms
  const sync_decision d = settle(machine, limits);
  ASSERT_TRUE(d.verdict.ok()) << d.verdict.text();
  EXPECT_NE(d.choice.flags, flag_order::release);
  EXPECT_EQ(d.choice.packet_overlap, launch_overlap::none) << "it was not measured";
  std::string dropped;
  for (const std::string& line : d.dropped) dropped += line + "\n";
  EXPECT_TRUE(has(dropped, "flag: a trip takes")) << dropped;
}

TEST(sync_paths, packets_planted_slow_are_not_used) {
  path_faults faults;
  faults.of[static_cast<int>(sync_path::packet)] = path_fault::slow;
  faults.delay = std::chrono::milliseconds(150);
  trial_machine machine(2, 1, faults);
  sync_limits limits = generous();
  limits.slow_round_ns = 0;
  const sync_decision d = settle(machine, limits);
  ASSERT_TRUE(d.verdict.ok()) << d.verdict.text();
  EXPECT_FALSE(d.choice.packets);
  ASSERT_FALSE(d.dropped.empty());
  EXPECT_TRUE(has(d.dropped[0], "ll: a trip takes")) << d.dropped[0];
}

TEST(sync_paths, a_rank_that_cannot_try_ends_it_for_all_at_once) {
  trial_machine machine(3, 1);
  sync_limits limits = generous();
  limits.meeting_ns = 300'000'000;
  const auto begin = std::chrono::steady_clock::now();
  const sync_decision d = settle(machine, limits, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_EQ(d.verdict.code(), xylSystemError);
  EXPECT_TRUE(has(d.verdict.text(), "rank 1 could not run it")) << d.verdict.text();
}

}  // namespace
}  // namespace xyl::test
