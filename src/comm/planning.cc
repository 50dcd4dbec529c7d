// SPDX-License-Identifier: BSD-3-Clause
#include "comm/planning.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "comm/by_size.hpp"
#include "comm/description.hpp"
#include "comm/machine_facts.hpp"
#include "os/numa.hpp"
#include "topo/host_plan.hpp"
#include "topo/plan_file.hpp"

namespace xyl {
namespace {

using topo::plan_override;

// What the plan file says, as far as it can be followed.
result read_prescribed(const parameters& p, std::size_t ranks, std::optional<plan_override>& out) {
  if (p.plan_file.empty()) return {};
  plan_override read;
  XYL_TRY(topo::read_plan_file(p.plan_file.c_str(), read));
  XYL_TRY(topo::check_override(read, ranks));
  for (const auto& [what, ranges] : read.thresholds)
    if (what != topo::pattern::all_reduce)
      return error(xylInvalidUsage, "it prescribes algorithms of %s; only those of allreduce can be prescribed",
                   topo::name_of(what));
  if (!read.thresholds.empty() && (p.forced_algorithm || p.packet_bytes || p.one_shot_bytes))
    return error(xylInvalidUsage,
                 "it prescribes algorithms, and so does XYLEM_ALGO, XYLEM_PACKET_BYTES or XYLEM_ONESHOT_BYTES; "
                 "unset one");
  if (ranks > topo::plan_table::most_ranks)
    return error(xylInvalidUsage, "plans are of at most %u ranks", topo::plan_table::most_ranks);
  out = std::move(read);
  return {};
}

// Thresholds that were measured here, now or earlier.
bool use_measured(const planning_input& in, const machine_facts& machine, selection::limits& limits,
                  std::optional<topo::tuning>& tuned, std::vector<std::string>& notes) {
  std::string path = "what was measured";
  if (in.measured != nullptr) {
    tuned = *in.measured;
  } else if (in.cache_folder && in.wishes.tune != tune_use::never) {
    const topo::tuning_key key = tuning_key_of(in, machine.key);
    path = *in.cache_folder + "/" + topo::file_name_of(key);
    std::string note;
    topo::tuning read;
    if (topo::load_tuning(path, key, read, note) && !read.measured.empty()) tuned = std::move(read);
    if (!note.empty()) notes.push_back(note);
  }
  if (!tuned) return false;
  for (const auto& [what, ranges] : tuned->thresholds) {
    if (what != topo::pattern::all_reduce) continue;
    std::vector<selection::range> usable;
    result r = ranges_from(ranges, in.wishes.deterministic, usable);
    if (r.ok() && selection::set_ranges(limits, usable, selection::origin::cache)) return true;
    notes.push_back(path + ": " + (r.ok() ? "its thresholds do not cover all sizes in order" : r.text()));
  }
  tuned.reset();
  return false;
}

bool on_one_gpu(std::span<const device_handle> all) {
  return std::all_of(all.begin(), all.end(), [&](const device_handle& h) {
    return std::memcmp(h.uuid, all.front().uuid, sizeof h.uuid) == 0;
  });
}

// Where algorithms change on devices, unless variables or a plan file say it.
void choose_for_devices(const planning_input& in, const topo::plan& plan, selection::limits& device,
                        std::vector<std::string>& notes) {
  // On one GPU two-shots fetch shares, whoever chose them, among more than two ranks (sent / fetched: 64M of 4 353 /
  // 272 us, of 8 850 / 640, 1M of 8 17.6 / 15.4, but 256K 9.3 / 11). Two ranks take the same time either way.
  if (in.hosts.size() > 2 && on_one_gpu(in.devices) && in.wishes.pull == pull_use::automatic)
    device.fetched_bytes = 768 << 10;
  if (device.from != selection::origin::defaults || in.hosts.size() == 1) return;
  // A model does not overrule a measurement, which the defaults are on one GPU; there two ranks take two shots from
  // where these are faster than one (16M 41 and 46 us, 64M 142 and 185).
  if (on_one_gpu(in.devices)) {
    if (in.hosts.size() == 2) device.one_shot_bytes = std::min<std::uint64_t>(device.one_shot_bytes, 8 << 20);
    return;
  }
  const topo::collective_plan* const all_reduce = plan.find(topo::pattern::all_reduce);
  if (all_reduce == nullptr) return;
  const std::vector<selection::range> fastest =
      fastest_by_size(*all_reduce, {in.device_map, device.chunk_bytes, in.wishes.deterministic});
  if (!selection::set_ranges(device, fastest, selection::origin::model))
    notes.push_back("The model has no time for the algorithms that run here; the defaults are used.");
}

// What both kinds of plans are asked for; devices, of one collective.
topo::plan_request request_of(const planning_input& in, const std::optional<plan_override>& prescribed) {
  topo::plan_request request;
  // Lines are not planned with.
  if (in.wishes.forced_algorithm && !uses_wide_packets(*in.wishes.forced_algorithm) &&
      !uses_line_packets(*in.wishes.forced_algorithm))
    request.forced = topo::method_of(*in.wishes.forced_algorithm);
  request.deterministic = in.wishes.deterministic;
  request.override_with = prescribed;
  return request;
}

result plan_hosts(const planning_input& in, const std::optional<plan_override>& prescribed,
                  std::span<const int> numa_of_rank, topo::plan& plan) {
  return topo::make_host_plan({.numa_of_rank = numa_of_rank, .processors = processors_of(in), .probe = in.probe},
                              request_of(in, prescribed), plan);
}

result plan_devices(const planning_input& in, const std::optional<plan_override>& prescribed,
                    machine_facts& machine, topo::plan& plan) {
  topo::plan_request request = request_of(in, prescribed);
  request.gpu_of_rank = place_ranks(in, machine);
  request.what = {topo::pattern::all_reduce};
  // One pair that has to leads all there.
  request.host_staged = in.is_staged;
  return topo::make_plan(machine.g, request, plan);
}

}  // namespace

std::vector<int> bounce_nodes(planning_input in) {
  std::vector<int> nodes(in.devices.size(), -1);
  in.is_staged = true;
  machine_facts machine;
  topo::plan plan;
  // What is wrong with a file is said when the plan is made.
  if (nodes.size() > topo::plan_table::most_ranks || !read_graph(in, machine).ok() ||
      !plan_devices(in, {}, machine, plan).ok())
    return nodes;
  for (const topo::bounce& b : plan.bounces) nodes[static_cast<std::size_t>(b.rank)] = b.numa_node;
  return nodes;
}

bool agreed_choice::plausible(std::uint32_t of_ranks) const {
  if (!choice.plausible(of_ranks) || description_bytes == 0 || description_bytes > (1u << 26)) return false;
  if (measure > 2) return false;
  if (of_ranks > topo::plan_table::most_ranks) return choice.plan == 0 && table.ranks == 0;
  return table.plausible(of_ranks) && choice.plan == table.hash();
}

ring_seat seat_of(const topo::plan_table& table, int rank) {
  for (std::uint32_t place = 0; place < table.ranks; ++place)
    if (table.ring[0][place] == rank)
      return {static_cast<std::int32_t>(place), table.ring[0][(place + 1) % table.ranks],
              table.ring[0][(place + table.ranks - 1) % table.ranks]};
  return {};
}

std::optional<std::string> user_cache_folder() {
  const auto set = [](const char* name) -> const char* {
    const char* const value = std::getenv(name);
    return value != nullptr && *value == '/' ? value : nullptr;
  };
  if (const char* const cache = set("XDG_CACHE_HOME")) return std::string(cache) + "/xylem";
  if (const char* const home = set("HOME")) return std::string(home) + "/.cache/xylem";
  return std::nullopt;
}

result make_choice(const planning_input& in, planned& out) {
  const std::size_t ranks = in.hosts.size();
  std::optional<plan_override> prescribed;
  XYL_TRY(named("XYLEM_PLAN", read_prescribed(in.wishes, ranks, prescribed)));
  machine_facts machine;
  XYL_TRY(read_graph(in, machine));

  selection choice = selection::defaults(static_cast<int>(ranks), in.wishes, in.max_blocks, in.can_read,
                                         in.is_staged, in.max_pull_blocks);
  if (prescribed && !prescribed->thresholds.empty()) {
    std::vector<selection::range> ranges;
    XYL_TRY(named("XYLEM_PLAN", ranges_from(prescribed->thresholds[0].second, in.wishes.deterministic, ranges)));
    for (selection::limits* of : {&choice.host, &choice.device})
      if (!selection::set_ranges(*of, ranges, selection::origin::plan_file))
        return error(xylInvalidUsage, "XYLEM_PLAN: its thresholds do not cover all sizes in order");
  }

  const std::vector<numa_node> nodes = list_numa_nodes(in.root);
  std::vector<int> numa_of_rank;
  for (const host_facts& h : in.hosts) numa_of_rank.push_back(numa_node_of(h.processors, nodes));

  topo::plan plan;
  std::optional<topo::tuning> tuned;
  std::memset(&out.agreed, 0, sizeof out.agreed);
  if (ranks > topo::plan_table::most_ranks) {
    machine.notes.push_back(format_text("More than %u ranks are not planned for: rings go in rank order.",
                                        topo::plan_table::most_ranks));
  } else {
    XYL_TRY(in.devices.empty() ? plan_hosts(in, prescribed, numa_of_rank, plan)
                               : plan_devices(in, prescribed, machine, plan));
    selection::limits& measurable = in.devices.empty() ? choice.host : choice.device;
    const bool is_free = ranks > 1 && (measurable.from == selection::origin::defaults ||
                                       measurable.from == selection::origin::staged);
    const bool known = is_free && use_measured(in, machine, measurable, tuned, machine.notes);
    const bool is_wanted = in.wishes.tune == tune_use::always || (in.wishes.tune == tune_use::missing && !known);
    if (is_free && is_wanted && in.measured == nullptr) out.agreed.measure = in.wishes.deterministic ? 2 : 1;
    if (!in.devices.empty()) choose_for_devices(in, plan, choice.device, machine.notes);
    XYL_TRY(topo::make_table(plan, out.agreed.table));
    choice.plan = out.agreed.table.hash();
    if (prescribed && prescribed->rings.size() > 1)
      machine.notes.push_back("XYLEM_PLAN has several rings; one runs at a time, the first.");
  }
  if (in.sync != nullptr) {
    choice.sync = in.sync->choice.packed();
    if (!in.sync->choice.packets) choice.avoid_packets();
    const std::optional<algorithm> lines = in.sync->choice.lines(), forced = in.wishes.forced_algorithm;
    if (forced && (uses_wide_packets(*forced) || uses_line_packets(*forced)) && forced != lines)
      machine.notes.push_back(
          format_text("XYLEM_ALGO=%s is not possible here, as the table of sync paths says.", name_of(*forced)));
    const bool wished =
        in.wishes.forced_sync == sync_path::wide_packet || in.wishes.forced_sync == sync_path::line_packet;
    if (lines)
      choice.use_lines(*lines, wished, on_one_gpu(in.devices));
    else
      choice.avoid_lines();
  }
  out.agreed.choice = choice;
  out.key = tuning_key_of(in, machine.key);
  const described_choice what{in, choice, plan, machine, numa_of_rank, nodes, tuned ? &*tuned : nullptr};
  out.description = describe(what);
  out.line = line_of(what);
  out.agreed.description_bytes = out.description.size();
  return {};
}

}  // namespace xyl
