// SPDX-License-Identifier: BSD-3-Clause
// Into the graph, and to JSON and back.
#include "topo/probe_report.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "topo/figure_merge.hpp"
#include "topo/override.hpp"
#include "topo/paths.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

// A pair that has less than this share of its rate alone, while others send too, shares something with them.
constexpr double slowed = 0.9;
// Two targets at more than this share of one are as good.
constexpr double no_collapse = 0.8;
constexpr double most_rate = 1e7;  // GB/s, and us: nothing is faster, or waited for so long

constexpr std::array verdict_words{"untested", "good", "unreachable", "dropped", "wrong", "silent", "unseen"};

std::vector<vertex_id> vertices_of(const probe_report& report, const graph& g) {
  std::vector<vertex_id> found;
  for (const std::string& name : report.gpus) {
    vertex_id at = no_vertex;
    const std::optional<pci_address> address = parse_pci_address(name);
    for (vertex_id v : g.gpus())
      if (address && g.vertices[v].pci == address) at = v;
    found.push_back(at);
  }
  return found;
}

figure measured(double value, confidence trust) {
  return value > 0 ? figure{value, source::measured, trust} : figure{};
}

// For pairs that were not measured: the least of their class.
struct class_figures {
  double push = 0, pull = 0, flag_us = 0;
  void add(const probed_pair& p) {
    const auto least = [](double& of, double with) {
      if (with > 0 && (of == 0 || with < of)) of = with;
    };
    least(push, p.push);
    least(pull, p.pull);
    flag_us = std::max(flag_us, p.flag_us);
  }
};

// Edges that several pairs crossed at once, all of which were slower than alone: what passed is what the edge can
// do. Of the edges of a path, the one that most of them crossed is the one that is shared.
void add_shared_edges(const probe_report& report, const std::vector<vertex_id>& at, bool pulls, graph& g) {
  struct crossing {
    unsigned pairs = 0, slow = 0;
    double sum = 0;
  };
  std::vector<crossing> crossed(g.edges.size());
  std::vector<std::vector<std::uint32_t>> slow_paths;
  const path_finder finder(g);
  for (const probed_pair& p : report.pairs) {
    const double rate = pulls ? p.pull_across : p.push_across, alone = pulls ? p.pull : p.push;
    if (rate == 0 || at[p.from] == no_vertex || at[p.to] == no_vertex) continue;
    const path way = finder.find(at[p.from], at[p.to]);
    const bool is_slow = alone > 0 && rate < slowed * alone;
    for (std::uint32_t e : way.edges) {
      ++crossed[e].pairs;
      crossed[e].slow += is_slow;
      crossed[e].sum += rate;
    }
    if (is_slow) slow_paths.push_back(way.edges);
  }
  for (const std::vector<std::uint32_t>& edges : slow_paths) {
    const auto most = std::max_element(edges.begin(), edges.end(), [&](std::uint32_t a, std::uint32_t b) {
      return crossed[a].pairs < crossed[b].pairs;
    });
    if (most == edges.end() || crossed[*most].pairs < 2 || crossed[*most].slow < crossed[*most].pairs) continue;
    edge& e = g.edges[*most];
    merge(pulls ? e.read : e.write, measured(crossed[*most].sum, confidence::medium));
  }
}

// What GPUs get to and from host memory stands as the figures of the pair that they make with it.
void add_staging(const probe_report& report, const std::vector<vertex_id>& at, graph& g) {
  for (const probed_staging& s : report.staging)
    for (vertex_id memory = 0; memory < g.vertices.size(); ++memory) {
      const vertex& v = g.vertices[memory];
      if (v.kind != vertex_kind::host_memory || v.os_index != static_cast<unsigned>(s.node)) continue;
      if (at[s.gpu] == no_vertex) continue;
      merge(pair_of(g, at[s.gpu], memory).write, measured(s.write, confidence::high));
      merge(pair_of(g, memory, at[s.gpu]).read, measured(s.read, confidence::high));
    }
}

}  // namespace

void add_probe(const probe_report& report, graph& g) {
  const std::vector<vertex_id> at = vertices_of(report, g);
  // Routes are found before any pair is vetoed.
  std::map<std::string, class_figures> classes;
  std::vector<std::string> class_of;
  const path_finder finder(g);
  for (const probed_pair& p : report.pairs) {
    const bool known = at[p.from] != no_vertex && at[p.to] != no_vertex;
    class_of.push_back(known ? name_of(finder.find(at[p.from], at[p.to])) : "");
    if (known) classes[class_of.back()].add(p);
  }
  for (bool pulls : {false, true}) add_shared_edges(report, at, pulls, g);
  for (std::size_t i = 0; i < report.pairs.size(); ++i) {
    const probed_pair& p = report.pairs[i];
    if (at[p.from] == no_vertex || at[p.to] == no_vertex) continue;
    const class_figures& alike = classes[class_of[i]];
    const auto put = [&](figure& into, double own, double of_class) {
      merge(into, own > 0 ? measured(own, confidence::high) : measured(of_class, confidence::medium));
    };
    pair_figure& pair = pair_of(g, at[p.from], at[p.to]);
    put(pair.write, p.push, alike.push);
    put(pair.read, p.pull, alike.pull);
    put(pair.flag_latency, p.flag_us, alike.flag_us);
    // What the driver refuses stays refused: what seemed to work may be something else than a link.
    if (is_veto(p.writes) || is_veto(p.reads))
      pair.peer_to_peer = false;
    else if (p.writes == probe_verdict::good && p.reads == probe_verdict::good && !pair.peer_to_peer)
      pair.peer_to_peer = true;
  }
  add_staging(report, at, g);
  if (report.write_collapse > 0)
    merge(g.write_collapse,
          measured(report.write_collapse < no_collapse ? report.write_collapse : 1.0, confidence::high));
}

json json_of(const probe_report& report) {
  json pairs = json::array(), staging = json::array();
  const auto put = [](json& into, const char* key, double value) {
    if (value > 0) into[key] = value;
  };
  for (const probed_pair& p : report.pairs) {
    json one = {{"from", p.from},
                {"to", p.to},
                {"writes", verdict_words[static_cast<std::size_t>(p.writes)]},
                {"reads", verdict_words[static_cast<std::size_t>(p.reads)]}};
    put(one, "push", p.push);
    put(one, "pull", p.pull);
    put(one, "flag_us", p.flag_us);
    put(one, "push_together", p.push_together);
    put(one, "pull_together", p.pull_together);
    put(one, "push_across", p.push_across);
    put(one, "pull_across", p.pull_across);
    pairs.push_back(std::move(one));
  }
  for (const probed_staging& s : report.staging) {
    json one = {{"gpu", s.gpu}, {"node", s.node}};
    put(one, "write", s.write);
    put(one, "read", s.read);
    staging.push_back(std::move(one));
  }
  json out = {{"gpus", report.gpus}, {"pairs", pairs}, {"staging", staging}};
  put(out, "write_collapse", report.write_collapse);
  put(out, "read_collapse", report.read_collapse);
  put(out, "both_ways", report.both_ways);
  put(out, "seconds", report.seconds);
  return out;
}

namespace {

result take_if_there(const json& in, const char* key, const std::string& where, double most, double& out) {
  return in.contains(key) ? take_number(in, key, where, 0, most, out) : result();
}

result take_verdict(const json& in, const char* key, const std::string& where, probe_verdict& out) {
  std::string word;
  XYL_TRY(take_text(in, key, where, word));
  const auto at = std::find(verdict_words.begin(), verdict_words.end(), word);
  if (at == verdict_words.end()) return error(xylInvalidUsage, "%s.%s is no verdict", where.c_str(), key);
  out = static_cast<probe_verdict>(at - verdict_words.begin());
  return {};
}

result take_gpu(const json& in, const char* key, const std::string& where, const probe_report& of,
                std::uint32_t& out) {
  std::uint64_t n = 0;
  XYL_TRY(take_whole(in, key, where, of.gpus.size() - 1, n));
  out = static_cast<std::uint32_t>(n);
  return {};
}

result take_pair(const json& in, const std::string& where, probe_report& out) {
  XYL_TRY(expect_object(in, where,
                        {"from", "to", "writes", "reads", "push", "pull", "flag_us", "push_together",
                         "pull_together", "push_across", "pull_across"}));
  probed_pair p;
  XYL_TRY(take_gpu(in, "from", where, out, p.from));
  XYL_TRY(take_gpu(in, "to", where, out, p.to));
  XYL_TRY(take_verdict(in, "writes", where, p.writes));
  XYL_TRY(take_verdict(in, "reads", where, p.reads));
  const std::pair<const char*, double*> numbers[] = {{"push", &p.push},
                                                     {"pull", &p.pull},
                                                     {"flag_us", &p.flag_us},
                                                     {"push_together", &p.push_together},
                                                     {"pull_together", &p.pull_together},
                                                     {"push_across", &p.push_across},
                                                     {"pull_across", &p.pull_across}};
  for (const auto& [key, into] : numbers) XYL_TRY(take_if_there(in, key, where, most_rate, *into));
  if (out.find(p.from, p.to) != nullptr) return error(xylInvalidUsage, "%s is there twice", where.c_str());
  out.pairs.push_back(p);
  return {};
}

}  // namespace

result read_probe(const json& in, probe_report& out) {
  probe_report read;
  XYL_TRY(expect_object(in, "probe",
                        {"gpus", "pairs", "staging", "write_collapse", "read_collapse", "both_ways", "seconds"}));
  for (const char* key : {"gpus", "pairs", "staging"}) {
    if (!in.contains(key)) return error(xylInvalidUsage, "probe has no \"%s\"", key);
    XYL_TRY(expect_array(in[key], key));
  }
  for (const json& name : in["gpus"]) {
    if (!name.is_string() || read.gpus.size() == probe_most_ranks)
      return error(xylInvalidUsage, "gpus is not a list of at most %u names", probe_most_ranks);
    read.gpus.push_back(name.get<std::string>());
  }
  if (read.gpus.empty()) return error(xylInvalidUsage, "gpus is empty");
  for (const json& pair : in["pairs"])
    XYL_TRY(take_pair(pair, "pairs[" + std::to_string(read.pairs.size()) + "]", read));
  for (const json& entry : in["staging"]) {
    const std::string where = "staging[" + std::to_string(read.staging.size()) + "]";
    XYL_TRY(expect_object(entry, where, {"gpu", "node", "write", "read"}));
    probed_staging s;
    std::uint64_t node = 0;
    XYL_TRY(take_gpu(entry, "gpu", where, read, s.gpu));
    XYL_TRY(take_whole(entry, "node", where, 1'000'000, node));
    s.node = static_cast<std::int32_t>(node);
    XYL_TRY(take_if_there(entry, "write", where, most_rate, s.write));
    XYL_TRY(take_if_there(entry, "read", where, most_rate, s.read));
    read.staging.push_back(s);
  }
  XYL_TRY(take_if_there(in, "write_collapse", "probe", 1, read.write_collapse));
  XYL_TRY(take_if_there(in, "read_collapse", "probe", 1, read.read_collapse));
  XYL_TRY(take_if_there(in, "both_ways", "probe", 1, read.both_ways));
  XYL_TRY(take_if_there(in, "seconds", "probe", 1e6, read.seconds));
  out = std::move(read);
  return {};
}

}  // namespace xyl::topo
