// SPDX-License-Identifier: BSD-3-Clause
//
// What rank 0 decides about measuring, and what comes of measurements: devices and results are made up.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "comm/machine_facts.hpp"
#include "comm/made_ranks.hpp"
#include "comm/planning.hpp"
#include "support/own_folder.hpp"
#include "topo/assembly.hpp"
#include "topo/export.hpp"
#include "topo/made_probe.hpp"
#include "topo/override.hpp"
#include "topo/probe_cache.hpp"

namespace xyl {
namespace {

using test::description_of;
using test::has_note;
using test::interleaved;
using test::made_ranks;
using topo::json;

class measuring : public test::with_a_folder {
 protected:
  measuring() : with_a_folder("measuring_test") {}
};

// Where a probe is done, and of what.
TEST_F(measuring, links_are_probed_where_there_are_several_gpus_and_nothing_is_kept) {
  made_ranks ranks = interleaved();
  planning_input in = ranks.input();
  in.cache_folder = folder_;
  probe_decision d = decide_probe(in);
  ASSERT_EQ(d.order.run, 1u);
  EXPECT_TRUE(d.order.plausible(8));
  EXPECT_EQ(d.order.on_host, 0u);
  EXPECT_EQ(d.order.pairs, 56u);
  // In the order of the machine: the first four are below one switch.
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(d.order.around[i] % 2, i / 4);

  topo::test::made_probe made(topo::test::switched({4, 4}, {0, 1}));
  ASSERT_TRUE(topo::store_probe(folder_, d.key, made.run()).ok());
  d = decide_probe(in);
  EXPECT_EQ(d.order.run, 0u);
  ASSERT_TRUE(d.kept);
  EXPECT_EQ(d.kept->pairs.size(), 56u);
  EXPECT_TRUE(d.kept->from_cache);
  // Some of them are covered, and are not what replaces it.
  ranks.devices.pop_back(), ranks.hosts.pop_back();
  planning_input fewer = ranks.input();
  fewer.cache_folder = folder_;
  EXPECT_TRUE(decide_probe(fewer).kept);
  topo::test::made_probe some(topo::test::switched({4, 4}, {0, 1}));
  some.of_rank.resize(3);
  ASSERT_TRUE(topo::store_probe(folder_, d.key, some.run()).ok());
  EXPECT_TRUE(decide_probe(fewer).kept);
  // More than what is kept are not.
  ASSERT_EQ(std::remove((folder_ + "/" + topo::file_name_of(d.key, "probe")).c_str()), 0);
  ASSERT_TRUE(topo::store_probe(folder_, d.key, some.run()).ok());
  EXPECT_FALSE(decide_probe(fewer).kept);
  EXPECT_EQ(decide_probe(fewer).order.run, 1u);
  ranks.wishes.probe = probe_use::never;
  d = decide_probe(fewer);
  EXPECT_EQ(d.order.run, 0u);
  EXPECT_FALSE(d.kept);
}

TEST_F(measuring, always_probes_anew_and_on_one_gpu_and_on_host_memory) {
  made_ranks one_gpu(topo::test::one_switch(2), {0, 0});
  EXPECT_EQ(decide_probe(one_gpu.input()).order.run, 0u);
  one_gpu.wishes.probe = probe_use::always;
  const topo::probe_order order = decide_probe(one_gpu.input()).order;
  ASSERT_EQ(order.pairs, 1u);
  EXPECT_EQ(order.alone[0], (topo::probe_pair{0, 1}));
  one_gpu.devices.clear();
  EXPECT_EQ(decide_probe(one_gpu.input()).order.on_host, 1u);
  one_gpu.wishes.probe = probe_use::automatic;
  EXPECT_EQ(decide_probe(one_gpu.input()).order.run, 0u);
  one_gpu.wishes.probe = probe_use::always;
  one_gpu.hosts.pop_back();
  EXPECT_EQ(decide_probe(one_gpu.input()).order.run, 0u) << "one rank has nobody to be linked to";
}

TEST_F(measuring, what_a_probe_measured_is_planned_with_and_shown) {
  made_ranks ranks = interleaved();
  topo::test::made_probe made(topo::test::switched({4, 4}, {0, 1}));
  for (topo::edge& e : made.truth.edges) e.write.value /= 4, e.read.value /= 4;
  const topo::probe_report report = made.run();
  planning_input in = ranks.input();
  in.probe = &report;
  in.probe_note = "kept nowhere";
  planned p;
  ASSERT_TRUE(make_choice(in, p).ok());
  const json d = description_of(p);
  EXPECT_EQ(d["links"][0]["write_gigabytes_per_second"]["source"], "measured");
  EXPECT_EQ(d["probe"]["pairs"].size(), 56u);
  EXPECT_FALSE(d["probe"]["kept_from_earlier"]);
  EXPECT_NE(d["probe"]["findings"].dump().find("below their maximum"), std::string::npos);
  EXPECT_TRUE(has_note(d, "kept nowhere"));
  // A user's figure wins.
  ranks.wishes.topology_override = file(R"({"pairs": [{"from": "*", "to": "*", "write": 11}]})");
  planning_input with_user = ranks.input();
  with_user.probe = &report;
  ASSERT_TRUE(make_choice(with_user, p).ok());
  EXPECT_EQ(description_of(p)["links"][0]["write_gigabytes_per_second"]["source"], "user");
}

TEST_F(measuring, what_a_person_forbids_is_told_from_what_the_driver_or_nobody_refuses) {
  topo::graph g = topo::test::switched({4, 4}, {0, 1});
  topo::number_devices(g);
  topo::pair_of(g, g.gpus()[0], g.gpus()[1]).peer_to_peer = false;
  made_ranks ranks(g, {0, 4, 1});
  const auto name = [&](std::size_t gpu) { return g.vertices[g.gpus()[gpu]].name; };
  const auto pair = [&](const std::string& from, const std::string& to, const char* what) {
    return "{\"pairs\": [{\"from\": \"" + from + "\", \"to\": \"" + to + "\", " + what + "}]}";
  };
  const auto forbidden = [&](const std::string& wish) {
    if (!wish.empty()) ranks.wishes.topology_override = file(wish);
    return forbidden_link(ranks.input());
  };
  const char* never = "\"peer_to_peer\": false";
  EXPECT_EQ(forbidden(""), "") << "the driver's word";
  EXPECT_EQ(forbidden(pair("*", "*", "\"write\": 20")), "");
  EXPECT_EQ(forbidden(pair(name(2), "*", never)), "") << "no rank is there";
  EXPECT_EQ(forbidden(pair("GPU 99", "*", never)), "") << "said elsewhere";
  const std::string one = forbidden(pair(name(4), name(1), never));
  EXPECT_EQ(one, "XYLEM_TOPO_OVERRIDE=" + ranks.wishes.topology_override +
                     " says that there is no peer-to-peer from " + name(4) + " to " + name(1));
  EXPECT_NE(forbidden(pair("*", "*", never)).find("nor between 5 more"), std::string::npos);
  // A file that describes the machine may say so, too; and an override takes it back.
  ranks.wishes.topology_override.clear();
  ranks.wishes.topology_file = file(topo::export_json(g));
  EXPECT_EQ(forbidden(""), "XYLEM_TOPO_FILE=" + ranks.wishes.topology_file +
                               " says that there is no peer-to-peer from " + name(0) + " to " + name(1));
  EXPECT_EQ(forbidden(pair("*", "*", "\"peer_to_peer\": true")), "");
  ranks.devices.clear();
  EXPECT_EQ(forbidden(pair("*", "*", never)), "") << "no devices";
}

TEST_F(measuring, a_veto_of_the_probe_is_planned_around) {
  made_ranks ranks = interleaved();
  topo::test::made_probe made(topo::test::switched({4, 4}, {0, 1}));
  made.writes[{0, 5}] = topo::probe_verdict::wrong;
  const topo::probe_report report = made.run();
  planning_input in = ranks.input();
  in.probe = &report;
  planned p;
  ASSERT_TRUE(make_choice(in, p).ok());
  EXPECT_TRUE(p.agreed.table.host_staged);
  unsigned staged = 0;
  const json d = description_of(p);
  for (const json& link : d["links"]) staged += link["class"] == "HOST";
  EXPECT_EQ(staged, 1u);
  // Ranks that were kept off their devices still hear why.
  ranks.devices.clear();
  planning_input on_host = ranks.input();
  on_host.probe = &report;
  ASSERT_TRUE(make_choice(on_host, p).ok());
  EXPECT_NE(description_of(p)["probe"]["findings"].dump().find("wrong data"), std::string::npos);
}

// Thresholds that are to be measured: said by rank 0, done once.
TEST_F(measuring, thresholds_are_measured_where_that_is_asked_for_and_nothing_prescribes_them) {
  made_ranks ranks = interleaved();
  planning_input in = ranks.input();
  planned p;
  const auto asks = [&] {
    EXPECT_TRUE(make_choice(in, p).ok());
    return p.agreed.measure == 1;
  };
  EXPECT_FALSE(asks());
  ranks.wishes.tune = tune_use::missing;
  EXPECT_TRUE(asks());
  ranks.wishes.forced_algorithm = algorithm::ring;
  EXPECT_FALSE(asks());
  ranks.wishes.forced_algorithm.reset();
  topo::tuning tuned;
  tuned.thresholds = {{topo::pattern::all_reduce, {{UINT64_MAX, topo::method::two_shot}}}};
  tuned.measured = {{topo::pattern::all_reduce, topo::method::two_shot, 1 << 20, 63.25}};
  in.measured = &tuned;
  EXPECT_FALSE(asks()) << "it was just done";
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::cache);
  const json times = description_of(p)["measured_times"]["allreduce"];
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0]["measured_us"], 63.25);
  EXPECT_GT(times[0]["predicted_us"], 0.0);
  in.measured = nullptr;
  in.cache_folder = folder_;
  ASSERT_TRUE(topo::store_tuning(folder_ + "/" + topo::file_name_of(p.key), p.key, tuned).ok());
  EXPECT_FALSE(asks()) << "it is kept";
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::cache);
  ranks.wishes.tune = tune_use::always;
  EXPECT_TRUE(asks());
  ranks.wishes.tune = tune_use::never;
  EXPECT_FALSE(asks());
  EXPECT_EQ(p.agreed.choice.device.from, selection::origin::model);
  // Host memory is another thing under another key.
  ranks.devices.clear();
  ranks.wishes.tune = tune_use::missing;
  planning_input host = ranks.input();
  ASSERT_TRUE(make_choice(host, p).ok());
  EXPECT_EQ(p.agreed.measure, 1u);
}

}  // namespace
}  // namespace xyl
