// SPDX-License-Identifier: BSD-3-Clause
#include "comm/description.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "comm/by_size.hpp"
#include "topo/describe.hpp"
#include "topo/export.hpp"
#include "topo/host_cost.hpp"
#include "topo/json_read.hpp"
#include "topo/paths.hpp"
#include "topo/pci_link.hpp"

namespace xyl {
namespace {

using topo::json;

json ranks_of(const described_choice& d) {
  json ranks = json::array();
  for (std::size_t r = 0; r < d.in.hosts.size(); ++r) {
    json one = {{"rank", r}, {"process", d.in.hosts[r].process}};
    one["numa_node"] = d.numa_of_rank[r] < 0 ? json(nullptr) : json(d.numa_of_rank[r]);
    one["device"] = nullptr;
    if (!d.in.devices.empty()) {
      const device_handle& h = d.in.devices[r];
      one["device"] = {{"number", h.ordinal},
                       {"pci", format_text("%04x:%02x:%02x.0", static_cast<unsigned>(h.pci_domain),
                                           static_cast<unsigned>(h.pci_bus), static_cast<unsigned>(h.pci_device))},
                       {"uuid", uuid_text(h.uuid)},
                       {"sm", h.sm}};
      if (r < d.plan.places.size()) one["device"]["name"] = d.plan.places[r].gpu;
    }
    ranks.push_back(one);
  }
  return ranks;
}

double rounded(double value) { return std::round(value * 1000) / 1000; }

json figure_json(const topo::figure& f) {
  if (!f.known()) return nullptr;
  return {{"value", rounded(f.value)}, {"source", topo::name_of(f.from)}, {"confidence", topo::name_of(f.trust)}};
}

json machine_of(const described_choice& d) {
  json nodes = json::array();
  for (const numa_node& node : d.nodes)
    nodes.push_back({{"number", node.number}, {"processors", CPU_COUNT(&node.processors)}});
  json machine = {{"numa_nodes", nodes}, {"graph_from", nullptr}};
  if (d.machine.from.empty()) return machine;
  machine["graph_from"] = d.machine.from;
  machine["driver"] = d.machine.driver.empty() ? json(nullptr) : json(d.machine.driver);
  json gpus = json::array(), counts = json::object();
  for (const topo::vertex& v : d.machine.g.vertices) {
    const char* const kind = topo::name_of(v.kind);
    counts[kind] = counts.value(kind, 0) + 1;
  }
  for (topo::vertex_id id : d.machine.g.gpus()) {
    const topo::vertex& v = d.machine.g.vertices[id];
    gpus.push_back({{"name", v.name}, {"pci", v.pci ? topo::name_of(*v.pci) : ""}, {"uuid", v.uuid}, {"sm", v.sm}});
  }
  machine["counts"] = counts;
  machine["gpus"] = gpus;
  machine["write_collapse"] = figure_json(d.machine.g.write_collapse);
  return machine;
}

// Ways between ranks, of each ordered pair; of more ranks than fit on a page, those of the ring.
json host_links_of(const described_choice& d) {
  constexpr std::size_t most_listed = 16;
  const topo::host_ranks ranks{
      .numa_of_rank = d.numa_of_rank, .processors = processors_of(d.in), .probe = d.in.probe};
  json links = json::array();
  const auto add = [&](std::size_t from, std::size_t to) {
    const topo::host_route r = topo::route_between(ranks, from, to);
    const int a = d.numa_of_rank[from], b = d.numa_of_rank[to];
    links.push_back({{"from", "rank " + std::to_string(from)},
                     {"to", "rank " + std::to_string(to)},
                     {"class", a < 0 || b < 0 ? "not known"
                               : a == b       ? "same NUMA node"
                                              : "other NUMA node"},
                     {"write_gigabytes_per_second", figure_json(r.write)},
                     {"read_gigabytes_per_second", figure_json(r.read)},
                     {"flag_us", figure_json(r.flag_us)}});
  };
  const std::size_t count = d.in.hosts.size();
  if (count <= most_listed)
    for (std::size_t from = 0; from < count; ++from)
      for (std::size_t to = 0; to < count; ++to)
        if (from != to) add(from, to);
  if (count > most_listed && !d.plan.rings.empty())
    for (std::size_t i = 0; i < count; ++i)
      add(static_cast<std::size_t>(d.plan.rings[0][i]), static_cast<std::size_t>(d.plan.rings[0][(i + 1) % count]));
  return links;
}

// Of the GPUs that ranks have, each ordered pair once.
json links_of(const described_choice& d) {
  if (d.in.devices.empty()) return host_links_of(d);
  json links = json::array();
  std::vector<topo::vertex_id> used;
  for (topo::vertex_id v : d.machine.g.gpus())
    for (const topo::rank_place& place : d.plan.places)
      if (place.gpu == d.machine.g.vertices[v].name) {
        used.push_back(v);
        break;
      }
  const topo::path_finder finder(d.machine.g);
  for (topo::vertex_id from : used)
    for (topo::vertex_id to : used) {
      if (from == to) continue;
      const topo::path p = finder.find(from, to);
      links.push_back({{"from", d.machine.g.vertices[from].name},
                       {"to", d.machine.g.vertices[to].name},
                       {"class", topo::name_of(p)},
                       {"write_gigabytes_per_second", figure_json(p.write)},
                       {"read_gigabytes_per_second", figure_json(p.read)}});
    }
  return links;
}

json thresholds_of(const selection& s, const selection::limits& of) {
  json list = json::array();
  for (const selection::range& r : s.ranges_of(of)) {
    json one = json::object();
    if (r.up_to_bytes != UINT64_MAX) one["up_to"] = r.up_to_bytes;
    one["algorithm"] = name_of(static_cast<algorithm>(r.how));
    list.push_back(one);
  }
  return list;
}

json in_use(const selection& s, const selection::limits& of) {
  return {{"allreduce", thresholds_of(s, of)},
          {"from", name_of(of.from)},
          {"chunk_bytes", of.chunk_bytes},
          {"registered_from_bytes", of.pull_bytes == UINT64_MAX ? json(nullptr) : json(of.pull_bytes)}};
}

json paths_of(const described_choice& d) {
  if (d.in.devices.empty()) return nullptr;
  const bool staged = d.in.is_staged;
  const std::uint64_t copied = d.choice.copy_engine_bytes;
  return {{"copy_engine_bytes", copied == UINT64_MAX ? json(nullptr) : json(copied)},
          {"workspaces", staged ? "host memory" : "device memory"},
          {"because", staged ? d.in.staging_reason : "every GPU reaches the memory of every other"}};
}

std::string sizes_text(const selection& s, const selection::limits& of) {
  std::string text;
  for (const selection::range& r : s.ranges_of(of)) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(static_cast<algorithm>(r.how)));
    if (r.up_to_bytes != UINT64_MAX) text += " to " + topo::size_text(r.up_to_bytes);
  }
  return text + format_text(" (%s)", name_of(of.from));
}

// Beside what the model says of the same, where it says something.
json measured_times_of(const described_choice& d) {
  if (d.tuned == nullptr) return nullptr;
  const topo::collective_plan* const planned = d.plan.find(topo::pattern::all_reduce);
  json times = json::array();
  for (const topo::measured_time& m : d.tuned->measured) {
    json one = {{"algorithm", topo::name_of(m.how)}, {"bytes", m.bytes}, {"measured_us", rounded(m.us)}};
    if (planned != nullptr)
      for (const topo::candidate& c : planned->candidates)
        if (c.how == m.how && runs(c)) one["predicted_us"] = rounded(c.cost.us(m.bytes));
    times.push_back(std::move(one));
  }
  return times;
}

json probe_of(const described_choice& d) {
  if (d.in.probe == nullptr) return nullptr;
  const topo::probe_report& report = *d.in.probe;
  json out = topo::json_of(report);
  out["units"] = "GB/s; us one way";
  out["kept_from_earlier"] = report.from_cache;
  out["problems"] = report.problems;
  json findings = json::array();
  for (const topo::finding& f : topo::find_probed_advice(report, d.machine.g))
    findings.push_back({{"finding", f.title}, {"evidence", f.evidence}, {"advice", f.fix}});
  out["findings"] = findings;
  return out;
}

const char* name_of(launch_overlap overlap) {
  switch (overlap) {
    case launch_overlap::none:
      return "none";
    case launch_overlap::late:
      return "late";
    case launch_overlap::early:
      return "early";
    case launch_overlap::automatic:
      break;
  }
  return "auto";
}

json number(double us) { return us > 0 ? json(std::round(us * 100) / 100) : json(nullptr); }

// Of calls on devices, with why each path is or is not used; in host memory there is one way.
json synchronisation_of(const described_choice& d) {
  json s = {{"host_memory", "release and acquire"}, {"device_memory", nullptr}};
  if (d.in.sync == nullptr) return s;
  const sync_choice& chosen = d.in.sync->choice;
  json paths = json::array();
  for (const sync_row& r : d.in.sync->rows)
    paths.push_back({{"path", r.name},
                     {"relies_on", r.relies_on},
                     {"allowed", r.allowed},
                     {"self_test", r.tested},
                     {"trip_us", number(r.trip_us)},
                     {"launch_us", number(r.launch_us)},
                     {"chosen", r.is_chosen},
                     {"why", r.chosen}});
  s["device_memory"] = {{"packets", chosen.packets},
                        {"ll128", chosen.wide_packets},
                        {"ll16", chosen.line_packets},
                        {"flags", name_of(path_of(chosen.flags))},
                        {"overlap_of_packets", name_of(chosen.packet_overlap)},
                        {"overlap_of_flags", name_of(chosen.flag_overlap)},
                        {"paths", std::move(paths)}};
  return s;
}

// "packets (overlap late), flag-gpu (overlap none)"
std::string sync_text(const sync_choice& c) {
  return format_text("%s (overlap %s), %s (overlap %s)",
                     c.wide_packets   ? "packets and ll128"
                     : c.line_packets ? "packets and ll16"
                     : c.packets      ? "packets"
                                      : "no packets",
                     name_of(c.packet_overlap), name_of(path_of(c.flags)), name_of(c.flag_overlap));
}

// Names may come from files: what is not UTF-8 is replaced, never thrown at.
std::string text_of(const json& value) { return value.dump(1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string describe(const described_choice& d) {
  const bool on_devices = !d.in.devices.empty();
  json plan = topo::describe(d.plan);
  // A plan file may hold them, so they are what is followed, not what would be best if everything ran.
  const json fastest = plan["thresholds"].value("allreduce", json(nullptr));
  plan["thresholds"] = {{"allreduce", thresholds_of(d.choice, on_devices ? d.choice.device : d.choice.host)}};
  json notes = d.machine.notes;
  for (const std::string& note : d.machine.g.notes) notes.push_back(note);
  if (!d.in.probe_note.empty()) notes.push_back(d.in.probe_note);
  json whole = {{"version", format_text("%d.%d.%d", XYL_MAJOR, XYL_MINOR, XYL_PATCH)},
                {"ranks", ranks_of(d)},
                {"machine", machine_of(d)},
                {"links", links_of(d)},
                {"host_memory", in_use(d.choice, d.choice.host)},
                {"device_memory", on_devices ? in_use(d.choice, d.choice.device) : json(nullptr)},
                {"device_paths", paths_of(d)},
                {"most_blocks", d.choice.max_blocks},
                {"synchronisation", synchronisation_of(d)},
                {"plan", std::move(plan)},
                {"planned_if_every_algorithm_ran", fastest},
                {"probe", probe_of(d)},
                {"measured_times", {{"allreduce", measured_times_of(d)}}},
                {"notes", notes}};
  return text_of(whole);
}

std::string line_of(const described_choice& d) {
  std::string text = format_text("%zu rank%s", d.in.hosts.size(), d.in.hosts.size() == 1 ? "" : "s");
  if (!d.in.devices.empty()) {
    std::vector<std::string> distinct;
    for (const topo::rank_place& p : d.plan.places)
      if (std::find(distinct.begin(), distinct.end(), p.gpu) == distinct.end()) distinct.push_back(p.gpu);
    text += format_text(" on %zu GPU%s, known from %s%s; allreduce on devices: %s", distinct.size(),
                        distinct.size() == 1 ? "" : "s", d.machine.from.c_str(),
                        d.in.is_staged ? ", meeting in host memory" : "",
                        sizes_text(d.choice, d.choice.device).c_str());
    if (d.in.sync != nullptr) text += "; " + sync_text(d.in.sync->choice);
  } else {
    text += format_text(" without devices, %zu NUMA node%s", d.nodes.size(), d.nodes.size() == 1 ? "" : "s");
  }
  text += "; in host memory: " + sizes_text(d.choice, d.choice.host);
  if (!d.plan.rings.empty()) {
    text += "; ring";
    for (int rank : d.plan.rings.front()) text += format_text(" %d", rank);
  }
  return text;
}

result describe_for(const std::string& common, const own_facts& own, std::string& out) {
  json whole = json::parse(common, nullptr, false);
  if (!whole.is_object()) return error(xylInternalError, "the description from rank 0 is not a JSON object");
  json mine = {{"rank", own.rank}, {"device", own.device < 0 ? json(nullptr) : json(own.device)}};
  mine["overlap"] = own.device < 0 ? json(nullptr) : json(name_of(own.overlap));
  if (own.device < 0) whole["notes"].push_back("Device memory is not used: " + own.no_device_reason);
  whole["this_rank"] = std::move(mine);
  json windows = json::array();
  for (const window_facts& w : own.windows)
    windows.push_back({{"number", w.number},
                       {"bytes", w.bytes},
                       {"memory", w.on_device ? "device" : "host"},
                       {"in_place", w.why_staged.empty()},
                       {"staged_because", w.why_staged.empty() ? json(nullptr) : json(w.why_staged)}});
  whole["registered"] = std::move(windows);
  out = text_of(whole) + "\n";
  return {};
}

}  // namespace xyl
