// SPDX-License-Identifier: BSD-3-Clause
//
// Every parameter: a value of each good kind arrives, every bad one is refused with a text that names the variable,
// what it holds and what is allowed.
#include "base/parameters.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "proto/algorithm.hpp"
#include "proto/sync_path.hpp"

namespace xyl {
namespace {

result read(const std::vector<std::string>& entries, parameters& out) {
  std::vector<const char*> environment;
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  return read_parameters(environment.data(), out);
}

parameters read_good(const std::vector<std::string>& entries) {
  parameters out;
  const result r = read(entries, out);
  EXPECT_TRUE(r.ok()) << r.text();
  return out;
}

std::string text_of_bad(const std::vector<std::string>& entries) {
  parameters out;
  const result r = read(entries, out);
  EXPECT_EQ(r.code(), xylInvalidUsage) << entries.front();
  return r.text();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(parameters, defaults) {
  for (const std::vector<std::string>& nothing : {std::vector<std::string>{},
                                                  {"PATH=/bin", "XYLEMX=1", "xylem_debug=?"},
                                                  {"XYLEM_TIMEOUT=", "XYLEM_ALGO="}}) {
    const parameters p = read_good(nothing);
    EXPECT_EQ(p.debug, log_level::warn);
    EXPECT_EQ(p.timeout_ns, 600'000'000'000);
    EXPECT_EQ(p.timeout_warning_ns, 10'000'000'000);
    EXPECT_FALSE(p.forced_algorithm);
    EXPECT_TRUE(p.use_gpu);
    EXPECT_FALSE(p.packet_bytes);
    EXPECT_FALSE(p.one_shot_bytes);
    EXPECT_FALSE(p.max_blocks);
    EXPECT_FALSE(p.deterministic);
    EXPECT_EQ(p.host_instructions, instruction_set::automatic);
    EXPECT_EQ(p.connect_timeout_ns, 10'000'000'000);
    EXPECT_EQ(p.socket_interfaces, "");
    EXPECT_EQ(p.topology_file, "");
    EXPECT_EQ(p.topology_override, "");
  }
  parameters unset;
  EXPECT_TRUE(read_parameters(nullptr, unset).ok());
}

TEST(parameters, debug) {
  EXPECT_EQ(read_good({"XYLEM_DEBUG=WARN"}).debug, log_level::warn);
  EXPECT_EQ(read_good({"XYLEM_DEBUG=info"}).debug, log_level::info);
  EXPECT_EQ(read_good({"XYLEM_DEBUG=Trace"}).debug, log_level::trace);
}

TEST(parameters, timeouts) {
  EXPECT_EQ(read_good({"XYLEM_TIMEOUT=0.01"}).timeout_ns, 10'000'000);
  EXPECT_EQ(read_good({"XYLEM_TIMEOUT=86400"}).timeout_ns, 86'400'000'000'000);
  EXPECT_EQ(read_good({"XYLEM_TIMEOUT_WARNING=0"}).timeout_warning_ns, 0);
  EXPECT_EQ(read_good({"XYLEM_TIMEOUT_WARNING=2.5"}).timeout_warning_ns, 2'500'000'000);
}

TEST(parameters, algorithm_has_the_names_of_the_protocols) {
  for (int i = 0; i < algorithms; ++i) {
    const auto a = static_cast<algorithm>(i);
    const parameters p = read_good({std::string("XYLEM_ALGO=") + name_of(a)});
    ASSERT_TRUE(p.forced_algorithm) << name_of(a);
    EXPECT_EQ(*p.forced_algorithm, a);
  }
  EXPECT_FALSE(read_good({"XYLEM_ALGO=auto"}).forced_algorithm);
}

TEST(parameters, sizes_blocks_and_choices) {
  EXPECT_EQ(read_good({"XYLEM_TWOSTEP_BYTES=64k"}).two_step_bytes, 65536u);
  EXPECT_EQ(read_good({"XYLEM_PACKET_BYTES=16k"}).packet_bytes, 16384u);
  EXPECT_EQ(read_good({"XYLEM_PACKET_BYTES=0"}).packet_bytes, 0u);
  EXPECT_EQ(read_good({"XYLEM_ONESHOT_BYTES=1024G"}).one_shot_bytes, 1ull << 40);
  EXPECT_EQ(read_good({"XYLEM_MAX_BLOCKS=1"}).max_blocks, 1);
  EXPECT_EQ(read_good({"XYLEM_MAX_BLOCKS=128"}).max_blocks, 128);
  EXPECT_FALSE(read_good({"XYLEM_GPU=never"}).use_gpu);
  EXPECT_TRUE(read_good({"XYLEM_GPU=auto"}).use_gpu);
  EXPECT_EQ(read_good({"XYLEM_P2P=auto"}).peer_to_peer, peer_to_peer_use::automatic);
  EXPECT_EQ(read_good({"XYLEM_P2P=0"}).peer_to_peer, peer_to_peer_use::never);
  EXPECT_EQ(read_good({"XYLEM_P2P=1"}).peer_to_peer, peer_to_peer_use::always);
  EXPECT_EQ(read_good({"XYLEM_COPY_ENGINE_BYTES=4M"}).copy_engine_bytes, 4u << 20);
  EXPECT_EQ(read_good({"XYLEM_COPY_ENGINE_BYTES=0"}).copy_engine_bytes, 0u);
  EXPECT_TRUE(read_good({"XYLEM_DETERMINISTIC=1"}).deterministic);
  EXPECT_FALSE(read_good({"XYLEM_DETERMINISTIC=0"}).deterministic);
  EXPECT_EQ(read_good({"XYLEM_OVERLAP=auto"}).overlap, launch_overlap::automatic);
  EXPECT_EQ(read_good({"XYLEM_OVERLAP=none"}).overlap, launch_overlap::none);
  EXPECT_EQ(read_good({"XYLEM_OVERLAP=early"}).overlap, launch_overlap::early);
  EXPECT_FALSE(read_good({"XYLEM_SYNC=auto"}).forced_sync.has_value());
  EXPECT_TRUE(read_good({"XYLEM_SYNC=list"}).list_sync);
  for (int path = 0; path < sync_paths; ++path)
    for (const char* suffix : {"", "+pdl"}) {
      const parameters p = read_good({std::string("XYLEM_SYNC=") + name_of(static_cast<sync_path>(path)) + suffix});
      EXPECT_EQ(p.forced_sync, static_cast<sync_path>(path));
      EXPECT_EQ(p.forced_sync_overlaps, *suffix != '\0');
      EXPECT_FALSE(p.list_sync);
    }
  EXPECT_EQ(read_good({"XYLEM_ISA=auto"}).host_instructions, instruction_set::automatic);
  EXPECT_EQ(read_good({"XYLEM_ISA=baseline"}).host_instructions, instruction_set::baseline);
  EXPECT_EQ(read_good({"XYLEM_ISA=avx2"}).host_instructions, instruction_set::avx2);
  EXPECT_EQ(read_good({"XYLEM_ISA=AVX512"}).host_instructions, instruction_set::avx512);
  EXPECT_EQ(read_good({"XYLEM_PULL=auto"}).pull, pull_use::automatic);
  EXPECT_EQ(read_good({"XYLEM_PULL=never"}).pull, pull_use::never);
  EXPECT_EQ(read_good({"XYLEM_PULL=oneshot"}).pull, pull_use::one_shot);
  EXPECT_EQ(read_good({"XYLEM_PULL=twoshot"}).pull, pull_use::two_shot);
  EXPECT_EQ(read_good({"XYLEM_PULL=staged"}).pull, pull_use::staged);
  EXPECT_EQ(read_good({}).single_copy, single_copy_use::never);
  EXPECT_EQ(read_good({"XYLEM_SINGLE_COPY=always"}).single_copy, single_copy_use::always);
  EXPECT_EQ(read_good({"XYLEM_SINGLE_COPY=never"}).single_copy, single_copy_use::never);
  EXPECT_EQ(read_good({"XYLEM_CONNECT_TIMEOUT=0.5"}).connect_timeout_ns, 500'000'000);
  for (const char* names : {"eth0", "eth,ib", "=eth0,lo", "^docker,virbr", "^=lo"})
    EXPECT_EQ(read_good({std::string("XYLEM_SOCKET_IFNAME=") + names}).socket_interfaces, names);
  EXPECT_EQ(read_good({"XYLEM_TOPO_FILE=/etc/box.xml"}).topology_file, "/etc/box.xml");
  EXPECT_EQ(read_good({"XYLEM_TOPO_OVERRIDE=/etc/my box.json"}).topology_override, "/etc/my box.json");
  EXPECT_EQ(read_good({"XYLEM_PLAN=/etc/plan.json"}).plan_file, "/etc/plan.json");
  EXPECT_EQ(read_good({"XYLEM_PROBE=auto"}).probe, probe_use::automatic);
  EXPECT_EQ(read_good({"XYLEM_PROBE=always"}).probe, probe_use::always);
  EXPECT_EQ(read_good({"XYLEM_PROBE=NEVER"}).probe, probe_use::never);
  EXPECT_EQ(read_good({"XYLEM_PROBE_HELPER=/opt/xylem-probe"}).probe_helper, "/opt/xylem-probe");
  EXPECT_EQ(read_good({"XYLEM_TUNE=cached"}).tune, tune_use::cached);
  EXPECT_EQ(read_good({"XYLEM_TUNE=missing"}).tune, tune_use::missing);
  EXPECT_EQ(read_good({"XYLEM_TUNE=always"}).tune, tune_use::always);
  EXPECT_EQ(read_good({"XYLEM_TUNE=never"}).tune, tune_use::never);
}

TEST(parameters, every_one_refuses_garbage_with_its_name_and_what_is_allowed) {
  std::map<std::string, std::vector<std::string>> bad = {
      {"XYLEM_DEBUG", {"VERBOSE", "1", "WARN "}},
      {"XYLEM_TIMEOUT", {"0", "0.009", "86401", "4k", "10s"}},
      {"XYLEM_TIMEOUT_WARNING", {"0.001", "86401", "never"}},
      {"XYLEM_ALGO", {"tree", "one-shot", "0", "twoshotll128"}},
      {"XYLEM_GPU", {"0", "always"}},
      {"XYLEM_P2P", {"2", "never", "yes"}},
      {"XYLEM_COPY_ENGINE_BYTES", {"4KB", "-1", "1025G"}},
      {"XYLEM_PACKET_BYTES", {"4KB", "1.5K", "1025G", "99999999999999999999"}},
      {"XYLEM_TWOSTEP_BYTES", {"4KB", "1.5K", "1025G", "99999999999999999999"}},
      {"XYLEM_ONESHOT_BYTES", {"4 K", "1T"}},
      {"XYLEM_MAX_BLOCKS", {"0", "129", "1k", "4294967297"}},
      {"XYLEM_OVERLAP", {"always", "0", "Early "}},
      {"XYLEM_SYNC", {"ll+", "+pdl", "ll +pdl", "list+pdl", "auto+pdl", "packet", "ll256"}},
      {"XYLEM_DETERMINISTIC", {"2", "yes", "01"}},
      {"XYLEM_ISA", {"sse", "avx1024"}},
      {"XYLEM_SINGLE_COPY", {"auto", "0"}},
      {"XYLEM_PULL", {"packet", "1"}},
      {"XYLEM_CONNECT_TIMEOUT", {"0", "86401", "10s"}},
      {"XYLEM_SOCKET_IFNAME", {"eth0,,lo", "eth0,", "^", "=^eth0", "^^eth0", "sixteen_letters_", "eth 0", "a/b"}},
      {"XYLEM_TOPO_FILE", {"box.xml", "./box.xml"}},
      {"XYLEM_TOPO_OVERRIDE", {"box.json"}},
      {"XYLEM_PLAN", {"plan.json"}},
      {"XYLEM_PROBE", {"yes", "1", "once"}},
      {"XYLEM_PROBE_HELPER", {"xylem-probe"}},
      {"XYLEM_TUNE", {"auto", "1"}},
  };
  for (const parameter_info& p : parameter_table()) {
    ASSERT_TRUE(bad.count(p.name)) << p.name << " has no bad values in this test";
    for (const char* garbage : {" ", "$HOME"}) bad[p.name].push_back(garbage);
    // These could be names.
    if (std::string(p.type) != "names")
      for (const char* garbage : {"true", "-1", "1e30", "nan", "inf"}) bad[p.name].push_back(garbage);
    for (const std::string& value : bad[p.name]) {
      const std::string text = text_of_bad({p.name + ("=" + value)});
      EXPECT_EQ(text, p.name + (" is \"" + value + "\"; allowed: ") + p.allowed);
    }
  }
  EXPECT_EQ(bad.size(), parameter_table().size());
}

TEST(parameters, unknown_name_is_refused_with_the_nearest_known_one) {
  const std::string text = text_of_bad({"XYLEM_DETERMINISTC=1"});
  EXPECT_TRUE(contains(text, "XYLEM_DETERMINISTC is not a variable that Xylem knows")) << text;
  EXPECT_TRUE(contains(text, "did you mean XYLEM_DETERMINISTIC?")) << text;
  EXPECT_TRUE(contains(text_of_bad({"XYLEM_TIMOUT=1"}), "did you mean XYLEM_TIMEOUT?"));
  EXPECT_TRUE(contains(text_of_bad({"XYLEM_debug=INFO"}), "did you mean XYLEM_DEBUG?"));
  text_of_bad({"XYLEM_=1"});
}

TEST(parameters, names_of_scripts_are_accepted) {
  for (const char* name : foreign_parameter_names()) read_good({std::string(name) + "=anything"});
  read_good({"XYLEM_BUILD=/tmp/build", "XYLEM_CONF=/etc/xylem.conf", "XYLEM_TOPOLOGY_DIR=/srv"});
}

TEST(parameters, all_problems_are_said_at_once_and_nothing_is_stored) {
  parameters p;
  const result r = read({"XYLEM_MAX_BLOCKS=3", "XYLEM_TIMEOUT=true", "XYLEM_SPEED=9", "XYLEM_GPU=maybe"}, p);
  EXPECT_EQ(r.code(), xylInvalidUsage);
  for (const char* part : {"XYLEM_TIMEOUT", "XYLEM_SPEED", "XYLEM_GPU"})
    EXPECT_TRUE(contains(r.text(), part)) << part;
  EXPECT_FALSE(p.max_blocks);
}

TEST(parameters, a_ring_is_not_deterministic) {
  const std::string text = text_of_bad({"XYLEM_ALGO=ring", "XYLEM_DETERMINISTIC=1"});
  EXPECT_TRUE(contains(text, "XYLEM_ALGO") && contains(text, "XYLEM_DETERMINISTIC=1")) << text;
  for (const char* rest : {"packet", "oneshot", "twoshot", "auto"})
    read_good({std::string("XYLEM_ALGO=") + rest, "XYLEM_DETERMINISTIC=1"});
}

TEST(parameters, sync_paths_fit_what_else_is_asked_for) {
  for (const char* flags : {"flag", "flag-gpu+pdl", "fence"})
    for (const char* packets : {"packet", "twoshotpacket", "ll128", "ll16"}) {
      const std::string text =
          text_of_bad({std::string("XYLEM_ALGO=") + packets, std::string("XYLEM_SYNC=") + flags});
      EXPECT_TRUE(contains(text, "XYLEM_ALGO") && contains(text, "XYLEM_SYNC")) << text;
    }
  read_good({"XYLEM_ALGO=packet", "XYLEM_SYNC=ll"});
  read_good({"XYLEM_ALGO=twoshot", "XYLEM_SYNC=fence"});
  EXPECT_TRUE(contains(text_of_bad({"XYLEM_OVERLAP=none", "XYLEM_SYNC=ll+pdl"}), "XYLEM_OVERLAP is none"));
  EXPECT_TRUE(contains(text_of_bad({"XYLEM_OVERLAP=late", "XYLEM_SYNC=ll"}), "without +pdl"));
  read_good({"XYLEM_OVERLAP=none", "XYLEM_SYNC=ll"});
  read_good({"XYLEM_OVERLAP=early", "XYLEM_SYNC=flag+pdl"});
}

TEST(parameters, hostile_values_come_out_short_and_printable) {
  const std::string text = text_of_bad({"XYLEM_ALGO=\x1b[2J\n" + std::string(100'000, 'x')});
  EXPECT_LT(text.size(), 250u);
  for (char c : text) EXPECT_TRUE(c >= ' ' && c <= '~');
  EXPECT_LT(text_of_bad({"XYLEM_" + std::string(100'000, 'Y') + "=1"}).size(), 250u);
}

}  // namespace
}  // namespace xyl
