// SPDX-License-Identifier: BSD-3-Clause
// What is made of a probe's answers: figures of the graph, vetoes, plans and advice, on machines built by hand with
// made-up and planted results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "topo/built_machines.hpp"
#include "topo/made_probe.hpp"
#include "topo/override.hpp"
#include "topo/plan_assertions.hpp"
#include "topo/probe_cache.hpp"

namespace xyl::topo::test {
namespace {

graph two_switches() { return switched({4, 4}, {0, 1}); }

graph probed(const made_probe& m) {
  graph g = m.truth;
  add_probe(m.run(), g);
  return g;
}

bool has_finding(const std::vector<finding>& all, const std::string& title, const std::string& evidence = "") {
  for (const finding& f : all)
    if (f.title.find(title) != f.title.npos && f.evidence.find(evidence) != f.evidence.npos) return true;
  return false;
}

std::string titles(const std::vector<finding>& all) {
  std::string text;
  for (const finding& f : all) text += f.title + ": " + f.evidence + "\n";
  return text;
}

TEST(probe_report, a_healthy_machine_is_measured_and_nothing_is_found) {
  const made_probe m(two_switches());
  const probe_report report = m.run();
  EXPECT_EQ(report.veto(), "");
  EXPECT_TRUE(report.worth_keeping());
  ASSERT_EQ(report.pairs.size(), 56u);
  const graph g = probed(m);
  EXPECT_EQ(titles(find_probed_advice(report, g)), "");
  for (vertex_id a : g.gpus())
    for (vertex_id b : g.gpus()) {
      if (a == b) continue;
      const path p = find_path(g, a, b);
      EXPECT_EQ(p.write.from, source::measured);
      EXPECT_EQ(p.write.trust, confidence::high);
      EXPECT_NEAR(p.write.value, 0.85 * gen5_x16, 1e-6);
      EXPECT_NEAR(p.latency.value, 1, 1e-9);
      EXPECT_NE(p.what, path_class::host);
    }
  EXPECT_FALSE(plan_of(g).host_staged);
}

TEST(probe_report, a_user_knows_better) {
  const made_probe m(two_switches());
  graph g = m.truth;
  add_probe(m.run(), g);
  ASSERT_TRUE(apply_override(R"({"pairs": [{"from": "GPU 2", "to": "GPU 3", "write": 7}]})", g).ok());
  // Also when the probe comes later.
  add_probe(m.run(), g);
  const path p = find_path(g, g.gpus()[0], g.gpus()[1]);
  EXPECT_EQ(p.write.value, 7);
  EXPECT_EQ(p.write.from, source::user);
  EXPECT_EQ(p.read.from, source::measured);
}

// Each way in which a link can lie: a veto in words, a finding with evidence, and a plan around it.
TEST(probe_report, links_that_lie_are_vetoed_found_and_planned_around) {
  const struct {
    probe_verdict verdict;
    const char* words;
  } lies[] = {{probe_verdict::dropped, "does not arrive"},
              {probe_verdict::wrong, "wrong data"},
              {probe_verdict::silent, "never end"},
              {probe_verdict::unreachable, "cannot be mapped"}};
  for (const auto& lie : lies)
    for (const bool of_reads : {false, true}) {
      made_probe m(two_switches());
      (of_reads ? m.reads : m.writes)[{1, 6}] = lie.verdict;
      const probe_report report = m.run();
      EXPECT_NE(report.veto().find(lie.words), std::string::npos) << report.veto();
      EXPECT_NE(report.veto().find(of_reads ? "read" : "written"), std::string::npos) << report.veto();
      EXPECT_FALSE(report.worth_keeping());
      const graph g = probed(m);
      const std::vector<finding> found = find_probed_advice(report, g);
      EXPECT_TRUE(has_finding(found, "does not do what the driver says", lie.words)) << titles(found);
      EXPECT_EQ(found[0].how_much, weight::costly);
      EXPECT_EQ(find_path(g, g.gpus()[1], g.gpus()[6]).what, path_class::host);
      EXPECT_NE(find_path(g, g.gpus()[6], g.gpus()[1]).what, path_class::host);
      const plan p = plan_of(g);
      EXPECT_TRUE(p.host_staged);
      EXPECT_FALSE(p.rings.empty());
    }
}

TEST(probe_report, a_lie_of_one_rank_is_its_gpus) {
  made_probe m(one_switch(2));
  m.of_rank = {m.of_rank[0], m.of_rank[0], m.of_rank[1], m.of_rank[1]};
  m.writes[{1, 3}] = probe_verdict::dropped;
  const probe_report report = m.run();
  ASSERT_EQ(report.gpus.size(), 2u);
  EXPECT_EQ(report.find(0, 1)->writes, probe_verdict::dropped);
  EXPECT_EQ(report.find(1, 0)->writes, probe_verdict::good);
  // Ranks of one GPU were measured too.
  EXPECT_EQ(report.find(0, 0)->push, 1000);
  EXPECT_EQ(report.find(1, 1)->flag_us, 1);
}

TEST(probe_report, what_could_not_be_proven_must_not_be_used) {
  made_probe m(two_switches());
  m.gone[3] = "the GPU is taken (exclusive compute mode)";
  const probe_report report = m.run();
  EXPECT_NE(report.veto().find("could not be proven"), std::string::npos) << report.veto();
  EXPECT_NE(report.veto().find("exclusive compute mode"), std::string::npos) << report.veto();
  const graph g = probed(m);
  EXPECT_TRUE(has_finding(find_probed_advice(report, g), "could not be probed", "rank 3"));
  EXPECT_EQ(report.find(0, 1)->writes, probe_verdict::good);
  EXPECT_GT(report.find(0, 1)->push, 0);
  EXPECT_EQ(report.find(0, 3)->push, 0);
  // Its pairs are taken for their class.
  EXPECT_NEAR(find_path(g, g.gpus()[0], g.gpus()[3]).write.value, 0.85 * gen5_x16, 1e-6);
  EXPECT_EQ(find_path(g, g.gpus()[0], g.gpus()[3]).write.trust, confidence::medium);
}

TEST(probe_report, one_slow_card_is_found_and_slows_the_prediction) {
  made_probe m(two_switches());
  const graph described = m.truth;
  for (edge& e : m.truth.edges)
    if (e.from == m.of_rank[2] || e.to == m.of_rank[2]) e.write = e.read = nominal(gen5_x16 / 10);
  const probe_report report = m.run();
  graph g = described;
  add_probe(report, g);
  const std::vector<finding> found = find_probed_advice(report, g);
  const std::string slow = m.truth.vertices[m.of_rank[2]].name;
  EXPECT_TRUE(has_finding(found, "One slow card", slow)) << titles(found);
  EXPECT_TRUE(has_finding(found, "below their maximum", slow)) << titles(found);
  EXPECT_FALSE(has_finding(found, "One slow card", m.truth.vertices[m.of_rank[1]].name)) << titles(found);
  const double healthy = plan_of(described).find(pattern::all_reduce)->predicted_us(256 << 20);
  EXPECT_GT(plan_of(g).find(pattern::all_reduce)->predicted_us(256 << 20), 5 * healthy);
}

// Eight lanes instead of sixteen, or the generation before: half of what card and slot can do.
TEST(probe_report, a_link_that_is_trained_to_half_of_what_it_can_do_is_found_under_load) {
  made_probe m(two_switches());
  const graph described = m.truth;
  for (const double share : {0.9, 0.5}) {
    m.truth = described;
    for (edge& e : m.truth.edges)
      if (e.from == m.of_rank[2] || e.to == m.of_rank[2]) e.write = e.read = nominal(gen5_x16 * share);
    const probe_report report = m.run();
    graph g = described;
    add_probe(report, g);
    const std::string card = m.truth.vertices[m.of_rank[2]].name;
    EXPECT_EQ(has_finding(find_probed_advice(report, g), "below their maximum", card), share < 0.6) << share;
  }
  for (const double share : {0.9, 0.5}) {
    made_probe linked(with_nvswitch(4, 450));
    const graph before = linked.truth;
    for (edge& e : linked.truth.edges)
      if (e.kind == edge_kind::nvlink) e.write.value *= share, e.read.value *= share;
    EXPECT_EQ(has_finding(find_probed_advice(linked.run(), before), "below their maximum"), share < 0.6) << share;
  }
}

TEST(probe_report, a_collapse_is_measured_flagged_and_told) {
  made_probe m(switched({2, 2, 2}, {0, 0, 1}));
  m.collapse = 0.05;
  probe_report report = m.run();
  EXPECT_NEAR(report.write_collapse, 0.05, 1e-9);
  EXPECT_NEAR(report.read_collapse, 1, 1e-9);
  const graph g = probed(m);
  EXPECT_TRUE(plan_of(g).collapse_flagged);
  EXPECT_TRUE(has_finding(find_probed_advice(report, g), "collapse", "5%"));
  m.collapse = 1;
  EXPECT_FALSE(plan_of(probed(m)).collapse_flagged);
  // Where it was feared and is not there, the fear goes.
  m.truth.write_collapse = nominal(0.1);
  EXPECT_FALSE(plan_of(probed(m)).collapse_flagged);
}

TEST(probe_report, a_shared_uplink_gets_what_passed_through_it) {
  // The switches' uplinks are as fast as a GPU's link, so four GPUs share one.
  const made_probe m(two_switches());
  const graph g = probed(m);
  const path p = find_path(g, g.gpus()[0], g.gpus()[7]);
  unsigned measured_edges = 0;
  for (std::uint32_t e : p.edges)
    if (g.edges[e].write.from == source::measured) {
      ++measured_edges;
      EXPECT_NEAR(g.edges[e].write.value, 0.85 * gen5_x16, 1e-6);
      EXPECT_NE(g.vertices[g.edges[e].from].kind, vertex_kind::gpu);
      EXPECT_NE(g.vertices[g.edges[e].to].kind, vertex_kind::gpu);
    }
  EXPECT_EQ(measured_edges, 1u);
}

TEST(probe_report, peer_to_peer_that_is_slower_than_host_memory_is_found) {
  made_probe m(direct_attached(nominal(3)));
  m.host_rate = 40;
  const probe_report report = m.run();
  const graph g = probed(m);
  EXPECT_TRUE(has_finding(find_probed_advice(report, g), "slower than host memory", "through host memory"));
  EXPECT_EQ(report.staging.size(), 16u) << "from eight GPUs to two memories";
}

TEST(probe_report, a_staged_plan_goes_by_what_host_memory_does) {
  double before = 0;
  // Below a fourth of the uplink that four GPUs share.
  for (const double rate : {3.0, 6.0, 12.0}) {
    made_probe m(two_switches());
    m.writes[{0, 1}] = probe_verdict::dropped;
    m.host_rate = rate;
    const graph g = probed(m);
    const path p = find_path(g, g.gpus()[0], g.gpus()[1]);
    EXPECT_EQ(p.what, path_class::host);
    EXPECT_EQ(p.write.value, rate);
    EXPECT_EQ(p.write.from, source::measured);
    plan_request all_staged = one_rank_per_gpu(g);
    all_staged.host_staged = true;
    const double now = plan_of(g, all_staged).find(pattern::all_reduce)->predicted_us(64 << 20);
    EXPECT_TRUE(before == 0 || now < 0.7 * before) << rate << ": " << now << " after " << before;
    before = now;
  }
}

TEST(probe_report, flags_that_are_not_seen_while_kernels_run_are_a_veto) {
  made_probe m(two_switches());
  m.unseen.insert({2, 5});
  const probe_report report = m.run();
  EXPECT_EQ(report.find(2, 5)->writes, probe_verdict::unseen);
  EXPECT_EQ(report.find(5, 2)->writes, probe_verdict::unseen);
  EXPECT_EQ(report.find(2, 4)->writes, probe_verdict::good);
  EXPECT_NE(report.veto().find("not seen while kernels run"), std::string::npos);
  EXPECT_TRUE(plan_of(probed(m)).host_staged);
}

TEST(probe_report, ranks_that_take_turns_on_a_gpu_are_told_of_mps) {
  made_probe m(one_switch(2));
  m.of_rank = {m.of_rank[0], m.of_rank[0], m.of_rank[1]};
  const std::vector<finding> fine = find_probed_advice(m.run(), m.truth);
  EXPECT_FALSE(has_finding(fine, "take turns")) << titles(fine);
  m.unseen.insert({0, 1});
  const probe_report report = m.run();
  EXPECT_EQ(report.veto(), "") << "it is slow, and right";
  EXPECT_TRUE(report.worth_keeping());
  EXPECT_TRUE(has_finding(find_probed_advice(report, m.truth), "take turns", "did not come"));
}

TEST(probe_report, what_ranks_of_one_gpu_pass_is_planned_with) {
  made_probe m(one_switch(1));
  m.of_rank = {m.of_rank[0], m.of_rank[0]};
  graph g = m.truth;
  plan_request request;
  request.gpu_of_rank = {m.of_rank[0], m.of_rank[0]};
  const double before = plan_of(g, request).find(pattern::all_reduce)->predicted_us(256 << 20);
  add_probe(m.run(), g);  // 1000 GB/s instead of 800
  const double after = plan_of(g, request).find(pattern::all_reduce)->predicted_us(256 << 20);
  EXPECT_NEAR(after / before, 0.8, 0.02);
}

TEST(probe_report, pairs_that_were_not_measured_are_taken_for_their_class) {
  std::vector<unsigned> gpus(8, 4), sockets{0, 0, 0, 0, 1, 1, 1, 1};
  const made_probe m(switched(gpus, sockets));
  const graph g = probed(m);
  unsigned measured_pairs = 0;
  for (vertex_id a : g.gpus())
    for (vertex_id b : g.gpus()) {
      if (a == b) continue;
      const path p = find_path(g, a, b);
      EXPECT_EQ(p.write.from, source::measured);
      measured_pairs += p.write.trust == confidence::high;
    }
  EXPECT_LT(measured_pairs, 20u);
  EXPECT_GT(measured_pairs, 0u);
}

TEST(probe_report, of_many_ranks_on_a_gpu_two_prove_its_links) {
  made_probe m(one_switch(2));
  m.of_rank = {m.of_rank[0], m.of_rank[0], m.of_rank[0], m.of_rank[1], m.of_rank[0]};
  const probe_report report = m.run();
  EXPECT_EQ(report.veto(), "");
  EXPECT_TRUE(report.proves(m.names()));
  m.writes[{3, 1}] = probe_verdict::dropped;
  EXPECT_NE(m.run().veto(), "");
}

TEST(probe_report, numbers_that_make_no_sense_are_no_measurements) {
  const made_probe m(one_switch(2));
  const probe_order order = order_probe(m.input());
  std::vector<std::vector<probe_answer>> answers;
  for (const probe_step& s : steps_of(order)) {
    probe_answer a{};
    a.state = static_cast<std::uint32_t>(probe_state::done);
    a.value = s.kind == probe_kind::push ? -3 : std::numeric_limits<double>::quiet_NaN();
    std::memset(a.verdict, 77, sizeof a.verdict);
    answers.push_back({a, a});
  }
  const probe_report report = evaluate(order, m.gpu_of_rank(), m.names(), answers);
  for (const probed_pair& p : report.pairs) {
    EXPECT_EQ(p.push, 0);
    EXPECT_EQ(p.pull, 0);
    EXPECT_EQ(p.writes, probe_verdict::untested);
  }
  EXPECT_NE(report.veto(), "");
}

class probe_cache : public testing::Test {
 protected:
  probe_cache() : folder_(testing::TempDir() + "probe_cache." + std::to_string(getpid()) + "/below") {}
  ~probe_cache() override { std::filesystem::remove_all(std::filesystem::path(folder_).parent_path()); }
  std::string path() const { return folder_ + "/" + file_name_of(key_, "probe"); }
  std::string folder_;
  tuning_key key_ = key_of(two_switches(), "580.95");
};

TEST_F(probe_cache, what_was_kept_is_read_and_gives_the_same_graph) {
  made_probe m(switched({2, 2, 2}, {0, 0, 1}));
  m.collapse = 0.25;
  m.host_rate = 20;
  const probe_report report = m.run();
  ASSERT_TRUE(store_probe(folder_, key_, report).ok());
  probe_report got;
  std::string note = "old";
  ASSERT_TRUE(load_probe(path(), key_, got, note)) << note;
  EXPECT_TRUE(got.from_cache);
  EXPECT_EQ(got.gpus, report.gpus);
  EXPECT_EQ(got.pairs, report.pairs);
  EXPECT_EQ(got.staging, report.staging);
  EXPECT_EQ(got.write_collapse, report.write_collapse);
  EXPECT_EQ(got.both_ways, report.both_ways);
  graph a = m.truth, b = m.truth;
  add_probe(report, a);
  add_probe(got, b);
  EXPECT_EQ(a.pairs.size(), b.pairs.size());
  EXPECT_EQ(in_terms_of_hardware(plan_of(a)), in_terms_of_hardware(plan_of(b)));
}

TEST_F(probe_cache, another_driver_is_foreign_and_garbage_is_ignored_with_a_note) {
  const made_probe m(two_switches());
  probe_report got;
  std::string note;
  EXPECT_FALSE(load_probe(path(), key_, got, note));
  EXPECT_EQ(note, "") << "there simply is no file";
  ASSERT_TRUE(store_probe(folder_, key_, m.run()).ok());
  tuning_key other = key_;
  other.driver = "575";
  EXPECT_FALSE(load_probe(path(), other, got, note));
  EXPECT_NE(note.find("another driver"), std::string::npos);
  std::ifstream in(path());
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t size = 0; size + 2 < whole.size(); size += 97) {
    std::ofstream(path()) << whole.substr(0, size);
    EXPECT_FALSE(load_probe(path(), key_, got, note)) << size;
    EXPECT_NE(note, "");
  }
  for (const auto& [from, to] :
       {std::pair{"\"good\"", "\"dropped\""}, std::pair{"\"good\"", "\"fine\""},
        std::pair{"\"from\": 0", "\"from\": 99"}, std::pair{"\"push\": ", "\"push\": -"}}) {
    std::string changed = whole;
    ASSERT_NE(changed.find(from), changed.npos) << from;
    changed.replace(changed.find(from), std::strlen(from), to);
    std::ofstream(path()) << changed;
    EXPECT_FALSE(load_probe(path(), key_, got, note)) << to;
  }
}

TEST_F(probe_cache, how_links_are_trained_at_the_moment_does_not_matter) {
  graph idle = two_switches();
  for (edge& e : idle.edges) e.current = nominal(3.9);
  idle.notes.push_back("read at night");
  EXPECT_EQ(key_of(idle, "580.95"), key_);
}

}  // namespace
}  // namespace xyl::topo::test
