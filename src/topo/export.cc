// SPDX-License-Identifier: BSD-3-Clause
// Members that hold nothing are left out, and read back as nothing. One line for each vertex and edge: a difference
// between two machines is a difference of lines.
#include "topo/export.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "topo/json_read.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

constexpr const char* format_name = "xylem-topology";
constexpr int format_version = 1;
constexpr double largest_number = 1e12;

constexpr std::array vertex_names{"gpu",       "nic",    "pci-switch",  "root-port", "root-complex",
                                  "numa-node", "socket", "host-memory", "nv-switch"};
constexpr std::array edge_names{"pcie", "nvlink", "socket-link", "memory", "internal"};
constexpr std::array source_names{"none", "nominal", "measured", "user"};
constexpr std::array trust_names{"none", "low", "medium", "high"};

template <typename Enum, std::size_t N>
result take_name(const std::string& text, const std::array<const char*, N>& names, const std::string& where,
                 Enum& out) {
  for (std::size_t i = 0; i < N; ++i)
    if (text == names[i]) {
      out = static_cast<Enum>(i);
      return {};
    }
  std::string known;
  for (const char* name : names) known += (known.empty() ? "" : ", ") + std::string(name);
  return error(xylInvalidArgument, "%s is \"%.64s\"; known are %s", where.c_str(), text.c_str(), known.c_str());
}

void put(json& object, const char* key, const figure& f) {
  if (f != figure()) object[key] = json::array({f.value, name_of(f.from), name_of(f.trust)});
}

json to_json(const vertex& v) {
  json out{{"kind", name_of(v.kind)}, {"name", v.name}};
  if (v.pci) out["pci"] = name_of(*v.pci);
  if (v.os_index) out["os_index"] = *v.os_index;
  if (!v.uuid.empty()) out["uuid"] = v.uuid;
  if (v.sm) out["sm"] = v.sm;
  if (v.bar1_bytes) out["bar1_bytes"] = v.bar1_bytes;
  if (v.mig) out["mig"] = true;
  if (v.acs_redirect) out["acs_redirect"] = *v.acs_redirect;
  if (v.iommu_translates) out["iommu_translates"] = *v.iommu_translates;
  if (!v.chip.empty()) out["chip"] = v.chip;
  return out;
}

json to_json(const edge& e) {
  json out{{"from", e.from}, {"to", e.to}, {"reverse", e.reverse}, {"kind", name_of(e.kind)}};
  if (e.links != 1) out["links"] = e.links;
  put(out, "write", e.write);
  put(out, "read", e.read);
  put(out, "latency", e.latency);
  put(out, "current", e.current);
  return out;
}

json to_json(const capacity_group& group) {
  json out{{"name", group.name}, {"edges", group.edges}};
  put(out, "total", group.total);
  return out;
}

json to_json(const pair_figure& p) {
  json out{{"from", p.from}, {"to", p.to}};
  put(out, "write", p.write);
  put(out, "read", p.read);
  put(out, "flag_latency", p.flag_latency);
  if (p.peer_to_peer) out["peer_to_peer"] = *p.peer_to_peer;
  return out;
}

json to_json(const std::string& note) { return note; }

// Texts of files may hold bytes that are not UTF-8: these are replaced, which a second export leaves alone.
std::string one_line(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

template <typename Rows>
void put_rows(std::string& text, const char* key, const Rows& rows) {
  text += ",\n\"" + std::string(key) + "\": [";
  const char* before = "\n  ";
  for (const auto& row : rows) {
    text += before + one_line(to_json(row));
    before = ",\n  ";
  }
  text += rows.empty() ? "]" : "\n]";
}

result take_figure(const json& object, const char* key, const std::string& where, figure& out) {
  const auto at = object.find(key);
  if (at == object.end()) return {};
  const std::string place = where + "." + key;
  XYL_TRY(expect_array(*at, place));
  if (at->size() != 3 || !(*at)[0].is_number() || !(*at)[1].is_string() || !(*at)[2].is_string())
    return error(xylInvalidArgument, "%s is not [number, source, confidence]", place.c_str());
  out.value = (*at)[0].get<double>();
  if (!(out.value >= 0) || out.value > largest_number)
    return error(xylInvalidArgument, "%s: a number from 0 to %g is expected", place.c_str(), largest_number);
  XYL_TRY(take_name((*at)[1].get<std::string>(), source_names, place + "[1]", out.from));
  return take_name((*at)[2].get<std::string>(), trust_names, place + "[2]", out.trust);
}

template <typename Number>
result take_index(const json& object, const char* key, const std::string& where, std::size_t count, Number& out) {
  std::uint64_t n = 0;
  if (count == 0) return error(xylInvalidArgument, "%s.%s points to nothing", where.c_str(), key);
  XYL_TRY(take_whole(object, key, where, count - 1, n));
  out = static_cast<Number>(n);
  return {};
}

// For members that may be missing.
template <typename Number>
result take_optional(const json& object, const char* key, const std::string& where, std::uint64_t most,
                     Number& out) {
  std::uint64_t n = 0;
  if (!object.contains(key)) return {};
  XYL_TRY(take_whole(object, key, where, most, n));
  out = static_cast<Number>(n);
  return {};
}

result from_json(const json& in, const std::string& where, const graph&, vertex& v) {
  XYL_TRY(expect_object(in, where,
                        {"kind", "name", "pci", "os_index", "uuid", "sm", "bar1_bytes", "mig", "acs_redirect",
                         "iommu_translates", "chip"}));
  std::string text;
  XYL_TRY(take_text(in, "kind", where, text));
  XYL_TRY(take_name(text, vertex_names, where + ".kind", v.kind));
  XYL_TRY(take_text(in, "name", where, v.name));
  if (in.contains("pci")) {
    XYL_TRY(take_text(in, "pci", where, text));
    v.pci = parse_pci_address(text);
    if (!v.pci) return error(xylInvalidArgument, "%s.pci is not a PCI address", where.c_str());
  }
  if (in.contains("os_index")) XYL_TRY(take_optional(in, "os_index", where, UINT32_MAX, v.os_index.emplace()));
  if (in.contains("uuid")) XYL_TRY(take_text(in, "uuid", where, v.uuid));
  if (in.contains("chip")) XYL_TRY(take_text(in, "chip", where, v.chip));
  XYL_TRY(take_optional(in, "sm", where, 10'000, v.sm));
  XYL_TRY(take_optional(in, "bar1_bytes", where, UINT64_MAX, v.bar1_bytes));
  std::optional<bool> mig;
  if (in.contains("mig")) XYL_TRY(take_switch(in, "mig", where, mig));
  v.mig = mig.value_or(false);
  if (in.contains("acs_redirect")) XYL_TRY(take_switch(in, "acs_redirect", where, v.acs_redirect));
  if (in.contains("iommu_translates")) XYL_TRY(take_switch(in, "iommu_translates", where, v.iommu_translates));
  return {};
}

result from_json(const json& in, const std::string& where, const graph& g, edge& e) {
  XYL_TRY(
      expect_object(in, where, {"from", "to", "reverse", "kind", "links", "write", "read", "latency", "current"}));
  XYL_TRY(take_index(in, "from", where, g.vertices.size(), e.from));
  XYL_TRY(take_index(in, "to", where, g.vertices.size(), e.to));
  std::string text;
  XYL_TRY(take_text(in, "kind", where, text));
  XYL_TRY(take_name(text, edge_names, where + ".kind", e.kind));
  // Whether it points to the other direction is checked when all edges are there.
  XYL_TRY(take_index(in, "reverse", where, UINT32_MAX, e.reverse));
  XYL_TRY(take_optional(in, "links", where, 1'000'000, e.links));
  XYL_TRY(take_figure(in, "write", where, e.write));
  XYL_TRY(take_figure(in, "read", where, e.read));
  XYL_TRY(take_figure(in, "latency", where, e.latency));
  return take_figure(in, "current", where, e.current);
}

result from_json(const json& in, const std::string& where, const graph& g, capacity_group& group) {
  XYL_TRY(expect_object(in, where, {"name", "edges", "total"}));
  XYL_TRY(take_text(in, "name", where, group.name));
  if (!in.contains("edges")) return error(xylInvalidArgument, "%s has no \"edges\"", where.c_str());
  XYL_TRY(expect_array(in["edges"], where + ".edges"));
  for (const json& e : in["edges"]) {
    if (!e.is_number_unsigned() || e.get<std::uint64_t>() >= g.edges.size())
      return error(xylInvalidArgument, "%s.edges: not an edge of this graph", where.c_str());
    group.edges.push_back(e.get<std::uint32_t>());
  }
  return take_figure(in, "total", where, group.total);
}

result from_json(const json& in, const std::string& where, const graph& g, pair_figure& p) {
  XYL_TRY(expect_object(in, where, {"from", "to", "write", "read", "flag_latency", "peer_to_peer"}));
  XYL_TRY(take_index(in, "from", where, g.vertices.size(), p.from));
  XYL_TRY(take_index(in, "to", where, g.vertices.size(), p.to));
  XYL_TRY(take_figure(in, "write", where, p.write));
  XYL_TRY(take_figure(in, "read", where, p.read));
  XYL_TRY(take_figure(in, "flag_latency", where, p.flag_latency));
  return in.contains("peer_to_peer") ? take_switch(in, "peer_to_peer", where, p.peer_to_peer) : result();
}

result from_json(const json& in, const std::string& where, const graph&, std::string& note) {
  if (!in.is_string()) return error(xylInvalidArgument, "%s is not a text", where.c_str());
  note = in.get<std::string>();
  return {};
}

template <typename Row>
result take_rows(const json& in, const char* key, const graph& g, std::vector<Row>& rows) {
  if (!in.contains(key)) return error(xylInvalidArgument, "there is no \"%s\"", key);
  XYL_TRY(expect_array(in[key], key));
  for (const json& row : in[key]) {
    Row r;
    XYL_TRY(from_json(row, std::string(key) + "[" + std::to_string(rows.size()) + "]", g, r));
    rows.push_back(std::move(r));
  }
  return {};
}

result check_directions(const graph& g) {
  for (std::size_t i = 0; i < g.edges.size(); ++i) {
    const edge& e = g.edges[i];
    if (e.reverse >= g.edges.size() || g.edges[e.reverse].reverse != i || g.edges[e.reverse].from != e.to ||
        g.edges[e.reverse].to != e.from || g.edges[e.reverse].kind != e.kind || e.from == e.to)
      return error(xylInvalidArgument, "edges[%zu].reverse is not the other direction of the same link", i);
  }
  return {};
}

}  // namespace

const char* name_of(vertex_kind kind) { return vertex_names[static_cast<std::size_t>(kind)]; }
const char* name_of(edge_kind kind) { return edge_names[static_cast<std::size_t>(kind)]; }
const char* name_of(source from) { return source_names[static_cast<std::size_t>(from)]; }
const char* name_of(confidence trust) { return trust_names[static_cast<std::size_t>(trust)]; }

std::string export_json(const graph& g) {
  std::string text = format_text("{\n\"format\": \"%s\",\n\"version\": %d", format_name, format_version);
  put_rows(text, "vertices", g.vertices);
  put_rows(text, "edges", g.edges);
  put_rows(text, "groups", g.groups);
  put_rows(text, "pairs", g.pairs);
  json rest = json::object();
  put(rest, "write_collapse", g.write_collapse);
  for (const auto& [key, value] : rest.items()) text += ",\n\"" + key + "\": " + one_line(value);
  put_rows(text, "notes", g.notes);
  return text + "\n}\n";
}

namespace {

result read_graph(const json& in, graph& g) {
  XYL_TRY(expect_object(in, "the file",
                        {"format", "version", "vertices", "edges", "groups", "pairs", "write_collapse", "notes"}));
  std::string format;
  std::uint64_t version = 0;
  XYL_TRY(take_text(in, "format", "the file", format));
  if (format != format_name)
    return error(xylInvalidArgument, "format is \"%.64s\"; \"%s\" is expected", format.c_str(), format_name);
  XYL_TRY(take_whole(in, "version", "the file", format_version, version));
  if (version != format_version) return error(xylInvalidArgument, "version 0 never was");
  XYL_TRY(take_rows(in, "vertices", g, g.vertices));
  XYL_TRY(take_rows(in, "edges", g, g.edges));
  XYL_TRY(check_directions(g));
  XYL_TRY(take_rows(in, "groups", g, g.groups));
  XYL_TRY(take_rows(in, "pairs", g, g.pairs));
  XYL_TRY(take_figure(in, "write_collapse", "the file", g.write_collapse));
  return take_rows(in, "notes", g, g.notes);
}

}  // namespace

result import_json(std::string_view text, graph& out) {
  json in;
  XYL_TRY(read_json(text, in));
  graph g;
  XYL_TRY(with_line(text, read_graph(in, g)));
  out = std::move(g);
  return {};
}

}  // namespace xyl::topo
