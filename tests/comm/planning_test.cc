// SPDX-License-Identifier: BSD-3-Clause
//
// What rank 0 decides, on machines built by hand: devices are made up, nothing is measured.
#include "comm/planning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "comm/by_size.hpp"
#include "comm/machine_facts.hpp"
#include "comm/made_ranks.hpp"
#include "support/own_folder.hpp"
#include "topo/built_machines.hpp"
#include "topo/export.hpp"
#include "topo/json_read.hpp"
#include "topo/tuning_cache.hpp"

namespace xyl {
namespace {

using test::description_of;
using test::has_note;
using test::interleaved;
using test::made_ranks;
using test::workspace;
using topo::json;

class planning : public test::with_a_folder {
 protected:
  planning() : with_a_folder("planning_test") {}
};

TEST_F(planning, the_ring_keeps_together_what_a_switch_holds) {
  made_ranks ranks = interleaved();
  const planned p = ranks.decide();
  EXPECT_TRUE(p.agreed.plausible(8));
  EXPECT_EQ(p.agreed.choice.plan, p.agreed.table.hash());
  int crossings = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const ring_seat seat = seat_of(p.agreed.table, rank);
    crossings += rank % 2 != seat.next % 2;
    EXPECT_EQ(seat_of(p.agreed.table, seat.next).previous, rank);
    EXPECT_EQ(seat_of(p.agreed.table, seat.next).place, (seat.place + 1) % 8);
  }
  EXPECT_EQ(crossings, 2);
}

TEST_F(planning, how_devices_synchronise_is_in_the_table_and_in_the_description) {
  made_ranks ranks = interleaved();
  sync_decision sync;
  sync.choice = {false, false, false, flag_order::fenced, launch_overlap::none, launch_overlap::early};
  sync.rows.push_back({"ll", "words", "yes", "passed", "no: slower than plain flags", 3.14159, 0, false});
  planning_input in = ranks.input();
  planned without, with;
  ASSERT_TRUE(make_choice(in, without).ok());
  in.sync = &sync;
  ASSERT_TRUE(make_choice(in, with).ok());
  EXPECT_TRUE(with.agreed.plausible(8));
  EXPECT_EQ(with.agreed.choice.sync, sync.choice.packed());
  EXPECT_NE(with.agreed.choice.hash(), without.agreed.choice.hash());
  EXPECT_TRUE(uses_packets(without.agreed.choice.choose(without.agreed.choice.device, 8, true)));
  for (std::uint64_t bytes = 1; bytes < 1ull << 32; bytes *= 2)
    EXPECT_FALSE(uses_packets(with.agreed.choice.choose(with.agreed.choice.device, bytes, true))) << bytes;
  const json s = description_of(with)["synchronisation"]["device_memory"];
  EXPECT_EQ(s["packets"], false);
  EXPECT_EQ(s["flags"], "fence");
  EXPECT_EQ(s["overlap_of_flags"], "early");
  ASSERT_EQ(s["paths"].size(), 1u);
  EXPECT_EQ(s["paths"][0]["trip_us"], 3.14);
  EXPECT_TRUE(s["paths"][0]["launch_us"].is_null());
  EXPECT_EQ(s["paths"][0]["why"], "no: slower than plain flags");
  EXPECT_NE(with.line.find("no packets (overlap none), fence (overlap early)"), std::string::npos) << with.line;
  EXPECT_TRUE(description_of(without)["synchronisation"]["device_memory"].is_null());
}

TEST_F(planning, thresholds_are_those_of_the_fastest_that_runs) {
  made_ranks ranks = interleaved();
  const planned p = ranks.decide();
  const selection& s = p.agreed.choice;
  ASSERT_EQ(s.device.from, selection::origin::model);
  const layout map = workspace(8);
  topo::plan_request request;
  const topo::graph g = topo::test::switched({4, 4}, {0, 1});
  for (std::size_t gpu : {0, 4, 1, 5, 2, 6, 3, 7}) request.gpu_of_rank.push_back(g.gpus()[gpu]);
  topo::plan plan;
  ASSERT_TRUE(topo::make_plan(g, request, plan).ok());
  for (std::uint64_t bytes = 1; bytes < (1ull << 32); bytes = bytes * 5 / 4 + 1) {
    const algorithm how = s.choose(s.device, bytes, true);
    const bool in_one_launch = how != algorithm::ring && how != algorithm::two_shot;
    EXPECT_TRUE(!in_one_launch || bytes <= chunk_elements(how, map, s.device.chunk_bytes, 1, true)) << name_of(how);
    // No algorithm that runs and holds the message is predicted to be faster.
    double chosen = 1e300, least = 1e300;
    for (const topo::candidate& c : plan.find(topo::pattern::all_reduce)->candidates) {
      if (!runs(c)) continue;
      const algorithm a = *algorithm_of(c.how);
      if (a == how) chosen = std::min(chosen, c.cost.us(bytes));
      if (a == algorithm::ring || a == algorithm::two_shot ||
          bytes <= chunk_elements(a, map, s.device.chunk_bytes, 1, true))
        least = std::min(least, c.cost.us(bytes));
    }
    EXPECT_LE(chosen, least * 1.000001 + 0.001) << bytes << " " << name_of(how);
  }
  EXPECT_EQ(s.choose(s.device, 8, true), algorithm::packet);
}

TEST_F(planning, ranks_on_one_gpu_keep_what_was_measured_there) {
  made_ranks ranks(topo::test::one_switch(2), {0, 0, 0, 0});
  const planned p = ranks.decide();
  const selection plain = selection::defaults(4, {}, 32);
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::defaults);
  for (std::uint64_t bytes : {1ull, 64ull << 10, 65ull << 10, 600ull << 10, 1ull << 30})
    EXPECT_EQ(p.agreed.choice.choose(p.agreed.choice.device, bytes, true), plain.choose(plain.device, bytes, true));
  EXPECT_LE(p.agreed.choice.device.fetched_bytes, 1u << 20) << "shares are fetched";
  ranks.wishes.packet_bytes = 100;
  EXPECT_LE(ranks.decide().agreed.choice.device.fetched_bytes, 1u << 20) << "whoever chose two shots";
  made_ranks two(topo::test::one_switch(2), {0, 0});
  const selection of_two = two.decide().agreed.choice;
  EXPECT_EQ(of_two.choose(of_two.device, 8 << 20, true), algorithm::one_shot);
  EXPECT_EQ(of_two.choose(of_two.device, (8 << 20) + 16, true), algorithm::two_shot);
}

TEST_F(planning, variables_win_over_the_model) {
  made_ranks ranks = interleaved();
  ranks.wishes.forced_algorithm = algorithm::one_shot;
  planned p = ranks.decide();
  EXPECT_EQ(p.agreed.choice.choose(p.agreed.choice.device, 1 << 30, true), algorithm::one_shot);
  ranks.wishes.forced_algorithm.reset();
  ranks.wishes.packet_bytes = 100;
  p = ranks.decide();
  EXPECT_EQ(p.agreed.choice.choose(p.agreed.choice.device, 100, true), algorithm::packet);
  EXPECT_NE(p.agreed.choice.choose(p.agreed.choice.device, 101, true), algorithm::packet);
}

TEST_F(planning, deterministic_rules_out_rings) {
  made_ranks ranks = interleaved();
  bool had_ring = false;
  for (const bool deterministic : {false, true}) {
    ranks.wishes.deterministic = deterministic;
    const planned p = ranks.decide();
    for (const selection::range& r : p.agreed.choice.ranges_of(p.agreed.choice.device)) {
      const bool is_ring = r.how == static_cast<std::uint64_t>(algorithm::ring);
      EXPECT_FALSE(deterministic && is_ring);
      had_ring = had_ring || is_ring;
    }
  }
  EXPECT_TRUE(had_ring) << "the machine is of no use to this test";
}

TEST_F(planning, a_plan_file_is_followed) {
  made_ranks ranks = interleaved();
  ranks.wishes.plan_file = file(
      R"({"rings": [[7, 6, 5, 4, 3, 2, 1, 0]],
          "thresholds": {"allreduce": [{"up_to": "64K", "algorithm": "oneshot"}, {"algorithm": "ring"}]}})");
  const planned p = ranks.decide();
  EXPECT_EQ(seat_of(p.agreed.table, 3).next, 2);
  for (const selection::limits* of : {&p.agreed.choice.device, &p.agreed.choice.host}) {
    EXPECT_EQ(of->from, selection::origin::plan_file);
    EXPECT_EQ(p.agreed.choice.choose(*of, 64 << 10, true), algorithm::one_shot);
    EXPECT_EQ(p.agreed.choice.choose(*of, (64 << 10) + 1, true), algorithm::ring);
  }
  // A description can be prescribed.
  ranks.wishes.plan_file = file(description_of(p)["plan"].dump());
  EXPECT_EQ(ranks.decide().agreed.table.hash(), p.agreed.table.hash());
}

TEST_F(planning, a_plan_file_that_cannot_be_followed_is_refused) {
  made_ranks ranks = interleaved();
  const auto refused = [&](const char* text, const char* because) {
    ranks.wishes.plan_file = file(text);
    const std::string why = ranks.refusal();
    EXPECT_NE(why.find("XYLEM_PLAN"), std::string::npos) << why;
    EXPECT_NE(why.find(because), std::string::npos) << why;
  };
  const char* const ring = R"({"thresholds": {"allreduce": [{"algorithm": "ring"}]}})";
  refused(R"({"thresholds": {"allreduce": [{"algorithm": "tree"}]}})", "cannot be run");
  refused(R"({"thresholds": {"broadcast": [{"algorithm": "tree"}]}})", "broadcast");
  refused(R"({"rings": [[0, 1]]})", "0 to 7");
  refused(R"({"rings": 3})", "rings");
  ranks.wishes.deterministic = true;
  refused(ring, "XYLEM_DETERMINISTIC");
  ranks.wishes.deterministic = false;
  ranks.wishes.forced_algorithm = algorithm::packet;
  refused(ring, "XYLEM_ALGO");
  ranks.wishes = {};
  ranks.devices.clear();
  refused(R"({"rings": [[0, 1]]})", "0 to 7");
}

TEST_F(planning, a_file_of_another_machine_is_planned_around_with_a_note) {
  made_ranks ranks = interleaved();
  for (device_handle& h : ranks.devices) h.pci_bus += 100;
  ranks.wishes.topology_file = file(topo::export_json(topo::test::switched({4, 4}, {0, 1})));
  const planned p = ranks.decide();
  EXPECT_TRUE(p.agreed.plausible(8));
  const json d = description_of(p);
  EXPECT_TRUE(has_note(d, "is not in what the file")) << d["notes"].dump();
  EXPECT_EQ(d["machine"]["gpus"].size(), 8u);
  ASSERT_EQ(d["links"].size(), 56u);
  EXPECT_EQ(d["links"][0]["class"], "PHB");
  EXPECT_TRUE(d["links"][0]["write_gigabytes_per_second"].is_null());
}

TEST_F(planning, files_that_a_person_names_must_be_right) {
  made_ranks ranks = interleaved();
  ranks.wishes.topology_file = file("{");
  EXPECT_NE(ranks.refusal().find("XYLEM_TOPO_FILE"), std::string::npos);
  ranks.wishes.topology_file.clear();
  ranks.wishes.topology_override = file("[]");
  EXPECT_NE(ranks.refusal().find("XYLEM_TOPO_OVERRIDE"), std::string::npos);
}

TEST_F(planning, a_machine_that_cannot_be_read_is_flat) {
  made_ranks ranks = interleaved();
  const topo::discovery failing(
      [](topo::machine_view&) -> result { return error(xylSystemError, "no tree here"); });
  planning_input in = ranks.input();
  in.machine = &failing;
  planned p;
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_TRUE(p.agreed.plausible(8));
  EXPECT_TRUE(has_note(description_of(p), "no tree here"));
}

TEST_F(planning, what_was_measured_on_this_machine_wins_over_the_model) {
  made_ranks ranks = interleaved();
  planning_input in = ranks.input();
  in.cache_folder = folder_;
  const topo::tuning_key key = tuning_key_of(in, topo::key_of(topo::test::switched({4, 4}, {0, 1}), "580.95"));
  const std::string path = folder_ + "/" + topo::file_name_of(key);
  planned p;
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::model);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing was measured";
  topo::tuning tuned;
  tuned.thresholds = {
      {topo::pattern::all_reduce, {{12345, topo::method::two_shot_packet}, {UINT64_MAX, topo::method::two_shot}}}};
  tuned.measured = {{topo::pattern::all_reduce, topo::method::two_shot, 1 << 20, 63.25}};
  ASSERT_TRUE(topo::store_tuning(path, key, tuned).ok());
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::cache);
  EXPECT_EQ(p.agreed.choice.choose(p.agreed.choice.device, 12345, true), algorithm::two_shot_packet);
  tuned.thresholds[0].second[1].how = topo::method::tree;
  ASSERT_TRUE(topo::store_tuning(path, key, tuned).ok());
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::model);
  EXPECT_TRUE(has_note(description_of(p), "tree"));
}

TEST_F(planning, the_description_says_what_was_chosen_and_what_else_there_is) {
  made_ranks ranks = interleaved();
  const planned p = ranks.decide();
  const json d = description_of(p);
  EXPECT_EQ(d["ranks"].size(), 8u);
  EXPECT_EQ(d["ranks"][3]["process"], 4711);
  EXPECT_EQ(d["device_memory"]["from"], "predicted from the topology");
  EXPECT_EQ(d["plan"]["thresholds"]["allreduce"], d["device_memory"]["allreduce"]);
  EXPECT_GT(d["plan"]["considered"]["allreduce"].size(), 5u);
  EXPECT_EQ(d["plan"]["rings"][0].size(), 8u);
  EXPECT_NE(p.line.find("8 ranks on 8 GPUs"), std::string::npos) << p.line;
}

TEST_F(planning, more_ranks_than_a_plan_has_room_for_go_in_rank_order) {
  made_ranks ranks(topo::test::one_switch(1), std::vector<std::size_t>(65, 0));
  ranks.devices.clear();
  const planned p = ranks.decide();
  EXPECT_TRUE(p.agreed.plausible(65));
  EXPECT_FALSE(seat_of(p.agreed.table, 3).is_set());
}

TEST_F(planning, garbled_choices_are_not_plausible) {
  made_ranks ranks = interleaved();
  const planned p = ranks.decide();
  agreed_choice bad = p.agreed;
  EXPECT_TRUE(bad.plausible(8));
  EXPECT_FALSE(bad.plausible(7));
  std::swap(bad.table.ring[0][1], bad.table.ring[0][2]);
  EXPECT_FALSE(bad.plausible(8)) << "another ring has another hash";
  bad = p.agreed;
  bad.choice.device.by_size[0].how = 77;
  EXPECT_FALSE(bad.plausible(8));
  bad = p.agreed;
  bad.description_bytes = 0;
  EXPECT_FALSE(bad.plausible(8));
  EXPECT_NE(bad.choice.hash(), 0u);
  bad = p.agreed;
  bad.choice.plan ^= 1;
  EXPECT_NE(bad.choice.hash(), p.agreed.choice.hash()) << "calls of ranks with different plans must differ";
}

// Where all meet in host memory: with their receivers, and away from a node that the user calls slow.
TEST_F(planning, windows_in_host_memory_lie_where_the_plan_wants_them) {
  made_ranks ranks(topo::test::quadrants(73), {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(bounce_nodes(ranks.input()), (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
  topo::graph slow = topo::test::quadrants(73);
  slow.groups[0].total = topo::test::measured(20);
  made_ranks others(slow, {0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<int> moved = bounce_nodes(others.input());
  EXPECT_LT(std::count(moved.begin(), moved.end(), 0), 2);
  // Ranks that share a GPU pass nothing through the host.
  made_ranks together(topo::test::one_switch(1), {0, 0});
  EXPECT_EQ(bounce_nodes(together.input()), (std::vector<int>{-1, -1}));
  ranks.wishes.topology_override = file("[]");
  EXPECT_EQ(bounce_nodes(ranks.input()), std::vector<int>(8, -1));
}

// No model and no cache knows this path; variables still count.
TEST_F(planning, gpus_that_meet_in_host_memory_get_thresholds_of_their_own_and_say_why) {
  made_ranks ranks(topo::test::one_switch(2), {0, 1});
  planning_input in = ranks.input();
  in.is_staged = true;
  in.staging_reason = "rank 1: device 1 cannot map the workspace of rank 0";
  planned p;
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::staged);
  EXPECT_TRUE(p.agreed.plausible(2));
  const json d = json::parse(p.description);
  EXPECT_EQ(d["device_paths"]["workspaces"], "host memory");
  EXPECT_EQ(d["device_paths"]["because"], in.staging_reason);
  EXPECT_EQ(d["device_paths"]["copy_engine_bytes"], p.agreed.choice.copy_engine_bytes);
  EXPECT_NE(p.line.find("meeting in host memory"), std::string::npos) << p.line;
  EXPECT_EQ(json::parse(ranks.decide().description)["device_paths"]["workspaces"], "device memory");
  ranks.wishes.packet_bytes = 100;
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::variable);
}

}  // namespace
}  // namespace xyl
