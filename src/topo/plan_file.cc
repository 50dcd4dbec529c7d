// SPDX-License-Identifier: BSD-3-Clause
#include "topo/plan_file.hpp"

#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/parse.hpp"
#include "topo/xml.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

result read_rings(const json& value, std::vector<std::vector<int>>& out) {
  XYL_TRY(expect_array(value, "rings"));
  for (const json& ring : value) {
    const std::string where = "rings[" + std::to_string(out.size()) + "]";
    XYL_TRY(expect_array(ring, where));
    std::vector<int> ranks;
    for (const json& rank : ring) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() > 100'000)
        return error(xylInvalidUsage, "%s[%zu] is not a rank", where.c_str(), ranks.size());
      ranks.push_back(static_cast<int>(rank.get<std::uint64_t>()));
    }
    out.push_back(std::move(ranks));
  }
  return {};
}

result read_size(const json& value, const std::string& where, std::uint64_t& out) {
  std::optional<std::uint64_t> bytes;
  if (value.is_number_unsigned()) bytes = value.get<std::uint64_t>();
  if (value.is_string()) bytes = parse_size(value.get_ref<const std::string&>());
  if (!bytes)
    return error(xylInvalidUsage, "%s.up_to is not a size in bytes, like 65536 or \"64K\"", where.c_str());
  out = *bytes;
  return {};
}

std::string all_methods() {
  std::string all;
  for (int i = 0; i < methods; ++i)
    all.append(i == 0 ? "" : i + 1 == methods ? " and " : ", ").append(name_of(static_cast<method>(i)));
  return all;
}

result read_ranges(const json& value, const std::string& where, std::vector<plan_override::range>& out) {
  XYL_TRY(expect_array(value, where));
  for (const json& range : value) {
    const std::string here = where + "[" + std::to_string(out.size()) + "]";
    XYL_TRY(expect_object(range, here, {"up_to", "algorithm", "how"}));
    std::string name;
    XYL_TRY(take_text(range, "algorithm", here, name));
    const std::optional<method> how = method_named(name);
    if (!how)
      return error(xylInvalidUsage, "%s.algorithm is \"%s\", which is no algorithm; there are %s", here.c_str(),
                   shown(name).c_str(), all_methods().c_str());
    std::uint64_t up_to = largest;
    if (const auto at = range.find("up_to"); at != range.end()) XYL_TRY(read_size(*at, here, up_to));
    if (!out.empty() && up_to <= out.back().up_to_bytes)
      return error(xylInvalidUsage, "%s does not cover larger sizes than the one before", here.c_str());
    out.push_back({up_to, *how});
  }
  if (out.empty() || out.back().up_to_bytes != largest)
    return error(xylInvalidUsage, "the last of %s must have no \"up_to\", so that all sizes are covered",
                 where.c_str());
  return {};
}

result usage(const result& r) { return r.ok() ? result() : error(xylInvalidUsage, "%s", r.text().c_str()); }

result read_plan(std::string_view text, plan_override& out) {
  json root;
  XYL_TRY(read_json(text, root));
  XYL_TRY(expect_object(root, "the plan",
                        {"rings", "thresholds", "ranks", "ring_rate", "trees", "islands", "write_collapse",
                         "host_staged", "bounce_buffers", "prescribed", "considered", "notes"}));
  if (const auto at = root.find("rings"); at != root.end()) XYL_TRY(read_rings(*at, out.rings));
  if (const auto at = root.find("thresholds"); at != root.end())
    XYL_TRY(read_thresholds(*at, "thresholds", out.thresholds));
  return {};
}

}  // namespace

result read_thresholds(const json& value, const std::string& where, prescribed_thresholds& out) {
  XYL_TRY(expect_object(value, where, {"allreduce", "allgather", "reducescatter", "broadcast", "alltoall"}));
  for (const auto& [key, ranges] : value.items()) {
    out.emplace_back(*pattern_named(key), std::vector<plan_override::range>());
    XYL_TRY(read_ranges(ranges, where + "." + key, out.back().second));
  }
  return {};
}

json write_thresholds(const prescribed_thresholds& thresholds) {
  json all = json::object();
  for (const auto& [what, ranges] : thresholds) {
    json list = json::array();
    for (const plan_override::range& r : ranges) {
      json range = json::object();
      if (r.up_to_bytes != largest) range["up_to"] = r.up_to_bytes;
      range["algorithm"] = name_of(r.how);
      list.push_back(range);
    }
    all[name_of(what)] = list;
  }
  return all;
}

result read_plan_text(std::string_view text, plan_override& out) {
  plan_override read;
  XYL_TRY(usage(read_plan(text, read)));
  out = std::move(read);
  return {};
}

result read_plan_file(const char* path, plan_override& out) {
  std::string text;
  XYL_TRY(usage(read_small_file(path, json_limit, text)));
  const result read = read_plan_text(text, out);
  return read.ok() ? result() : error(read.code(), "%s: %s", path, read.text().c_str());
}

result apply_parameters(const parameters& p, plan_request& request) {
  if (p.forced_algorithm) request.forced = method_of(*p.forced_algorithm);
  request.deterministic = p.deterministic;
  if (p.plan_file.empty()) return {};
  plan_override prescribed;
  XYL_TRY(read_plan_file(p.plan_file.c_str(), prescribed));
  request.override_with = std::move(prescribed);
  return {};
}

}  // namespace xyl::topo
