// SPDX-License-Identifier: BSD-3-Clause
// Works on a copy, so that a mistake in the last line leaves nothing of the first.
#include "topo/override.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "topo/figure_merge.hpp"
#include "topo/json_read.hpp"
#include "topo/pci_link.hpp"
#include "topo/xml.hpp"

namespace xyl::topo {
namespace {

constexpr double most_capacity = 1e5;  // GB/s
constexpr double most_latency = 1e6;   // us

class overrider {
 public:
  explicit overrider(graph& g) : graph_(g) {}

  result apply(const json& in) {
    XYL_TRY(expect_object(in, "the file", {"edges", "pairs", "groups", "write_collapse"}));
    XYL_TRY(each(in, "edges", [&](const json& row, const std::string& where) { return edge_row(row, where); }));
    XYL_TRY(each(in, "groups", [&](const json& row, const std::string& where) { return group_row(row, where); }));
    XYL_TRY(each(in, "pairs", [&](const json& row, const std::string& where) { return pair_row(row, where); }));
    return take(in, "write_collapse", "the file", 1, graph_.write_collapse);
  }

 private:
  template <typename Row>
  static result each(const json& in, const char* key, Row row) {
    if (!in.contains(key)) return {};
    XYL_TRY(expect_array(in[key], key));
    std::size_t count = 0;
    for (const json& value : in[key]) XYL_TRY(row(value, format_text("%s[%zu]", key, count++)));
    return {};
  }

  static result take(const json& in, const char* key, const std::string& where, double most, figure& out) {
    if (!in.contains(key)) return {};
    double value = 0;
    XYL_TRY(take_number(in, key, where, 0, most, value));
    merge(out, {value, source::user, confidence::high});
    return {};
  }

  result vertex_of(const json& value, const std::string& where, vertex_id& out) {
    if (!value.is_string()) return error(xylInvalidArgument, "%s is not the name of a device", where.c_str());
    const std::string name = value.get<std::string>();
    out = find_vertex(graph_, name);
    if (out != no_vertex) return {};
    return error(xylInvalidArgument,
                 "%s: this machine has no device, or several, called \"%s\"; xylem-topo prints names and addresses",
                 where.c_str(), shown(name).c_str());
  }

  // ["A", "B"]: the direction from A to B.
  result edge_between(const json& names, const std::string& where, std::uint32_t& out) {
    if (!names.is_array() || names.size() != 2)
      return error(xylInvalidArgument, "%s is not a list of two names", where.c_str());
    vertex_id from = no_vertex, to = no_vertex;
    XYL_TRY(vertex_of(names[0], where, from));
    XYL_TRY(vertex_of(names[1], where, to));
    return edge_of(from, to, where, out);
  }

  result edge_of(vertex_id from, vertex_id to, const std::string& where, std::uint32_t& out) {
    std::string neighbours;
    for (std::uint32_t e = 0; e < graph_.edges.size(); ++e) {
      if (graph_.edges[e].from != from) continue;
      if (graph_.edges[e].to == to) {
        out = e;
        return {};
      }
      if (neighbours.size() < 300)
        neighbours += (neighbours.empty() ? "" : ", ") + graph_.vertices[graph_.edges[e].to].name;
    }
    return error(xylInvalidArgument, "%s: %s is not linked to %s; it is to: %s", where.c_str(),
                 graph_.vertices[from].name.c_str(), graph_.vertices[to].name.c_str(), neighbours.c_str());
  }

  result edge_row(const json& row, const std::string& where) {
    XYL_TRY(expect_object(row, where, {"between", "from", "to", "write", "read", "latency"}));
    std::uint32_t there = 0;
    const bool both = row.contains("between");
    if (both == (row.contains("from") || row.contains("to")))
      return error(xylInvalidArgument, "%s needs either \"between\" or \"from\" and \"to\"", where.c_str());
    if (both)
      XYL_TRY(edge_between(row["between"], where + ".between", there));
    else if (row.contains("from") && row.contains("to"))
      XYL_TRY(edge_between(json::array({row["from"], row["to"]}), where, there));
    else
      return error(xylInvalidArgument, "%s has \"from\" or \"to\" without the other", where.c_str());
    for (const std::uint32_t e : {there, graph_.edges[there].reverse}) {
      if (e != there && !both) break;
      XYL_TRY(take(row, "write", where, most_capacity, graph_.edges[e].write));
      XYL_TRY(take(row, "read", where, most_capacity, graph_.edges[e].read));
      XYL_TRY(take(row, "latency", where, most_latency, graph_.edges[e].latency));
    }
    return {};
  }

  result group_row(const json& row, const std::string& where) {
    XYL_TRY(expect_object(row, where, {"name", "total", "edges"}));
    capacity_group group;
    XYL_TRY(take_text(row, "name", where, group.name));
    if (!row.contains("total") || !row.contains("edges"))
      return error(xylInvalidArgument, "%s needs \"total\" and \"edges\"", where.c_str());
    XYL_TRY(take(row, "total", where, most_capacity, group.total));
    XYL_TRY(each(row, "edges", [&](const json& names, const std::string& place) {
      return edge_between(names, where + "." + place, group.edges.emplace_back());
    }));
    // The same edge named twice would be counted twice.
    std::sort(group.edges.begin(), group.edges.end());
    group.edges.erase(std::unique(group.edges.begin(), group.edges.end()), group.edges.end());
    const auto same = std::find_if(graph_.groups.begin(), graph_.groups.end(),
                                   [&](const capacity_group& g) { return g.name == group.name; });
    if (same == graph_.groups.end())
      graph_.groups.push_back(std::move(group));
    else
      *same = std::move(group);
    return {};
  }

  result gpus_of(const json& row, const char* key, const std::string& where, std::vector<vertex_id>& out) {
    if (!row.contains(key)) return error(xylInvalidArgument, "%s has no \"%s\"", where.c_str(), key);
    if (row[key] == "*") {
      out = graph_.gpus();
      return {};
    }
    out.resize(1);
    XYL_TRY(vertex_of(row[key], where + "." + key, out[0]));
    if (graph_.vertices[out[0]].kind == vertex_kind::gpu) return {};
    return error(xylInvalidArgument, "%s.%s: %s is not a GPU", where.c_str(), key,
                 graph_.vertices[out[0]].name.c_str());
  }

  result pair_row(const json& row, const std::string& where) {
    XYL_TRY(expect_object(row, where, {"from", "to", "write", "read", "flag_latency", "peer_to_peer"}));
    std::vector<vertex_id> from, to;
    XYL_TRY(gpus_of(row, "from", where, from));
    XYL_TRY(gpus_of(row, "to", where, to));
    for (vertex_id a : from)
      for (vertex_id b : to) {
        if (a == b) continue;
        pair_figure& p = pair_of(graph_, a, b);
        XYL_TRY(take(row, "write", where, most_capacity, p.write));
        XYL_TRY(take(row, "read", where, most_capacity, p.read));
        XYL_TRY(take(row, "flag_latency", where, most_latency, p.flag_latency));
        if (row.contains("peer_to_peer")) XYL_TRY(take_switch(row, "peer_to_peer", where, p.peer_to_peer));
      }
    return {};
  }

  graph& graph_;
};

}  // namespace

pair_figure& pair_of(graph& g, vertex_id from, vertex_id to) {
  for (pair_figure& p : g.pairs)
    if (p.from == from && p.to == to) return p;
  pair_figure& p = g.pairs.emplace_back();
  p.from = from;
  p.to = to;
  return p;
}

vertex_id find_vertex(const graph& g, std::string_view name) {
  const std::optional<pci_address> address = parse_pci_address(name);
  vertex_id found = no_vertex;
  for (vertex_id v = 0; v < g.vertices.size(); ++v) {
    const vertex& candidate = g.vertices[v];
    if (!(address && candidate.pci == address) && candidate.name != name &&
        (candidate.uuid.empty() || candidate.uuid != name))
      continue;
    if (found != no_vertex) return no_vertex;
    found = v;
  }
  return found;
}

result apply_override(std::string_view text, graph& g) {
  json in;
  XYL_TRY(read_json(text, in));
  graph changed = g;
  XYL_TRY(with_line(text, overrider(changed).apply(in)));
  g = std::move(changed);
  return {};
}

result apply_override_file(const char* path, graph& g) {
  std::string text;
  XYL_TRY(read_small_file(path, json_limit, text));
  const result applied = apply_override(text, g);
  return applied.ok() ? result() : error(applied.code(), "%s: %s", path, applied.text().c_str());
}

}  // namespace xyl::topo
