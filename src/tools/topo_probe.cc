// SPDX-License-Identifier: BSD-3-Clause
#include "tools/topo_probe.hpp"

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "comm/probing.hpp"
#include "comm/together.hpp"
#include "os/machine.hpp"
#include "os/numa.hpp"
#include "peer/thread_allgather.hpp"
#include "topo/pci_link.hpp"

namespace xyl {
namespace {

using uuid = std::array<std::uint8_t, 16>;

// "GPU-1b3c...": 32 digits, whatever stands between them.
bool parse_uuid(std::string_view text, uuid& out) {
  if (!text.starts_with("GPU-")) return false;
  std::size_t digits = 0;
  for (char c : text.substr(4)) {
    if (c == '-') continue;
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0 || digits == 32) return false;
    out[digits / 2] = static_cast<std::uint8_t>(out[digits / 2] << 4 | value);
    ++digits;
  }
  return digits == 32;
}

}  // namespace

result probe_machine(const parameters& environment, const topo::graph& g, topo::probe_report& out) {
  topo::probe_plan_input in{.gpu_of_rank = {}, .machine = &g, .vertex_of_rank = {}, .nodes = {}};
  std::vector<uuid> devices;
  std::vector<std::string> names;
  for (topo::vertex_id v : g.gpus()) {
    uuid device{};
    if (!g.vertices[v].pci || !parse_uuid(g.vertices[v].uuid, device) || devices.size() == topo::probe_most_ranks)
      continue;
    in.gpu_of_rank.push_back(static_cast<std::uint32_t>(devices.size()));
    in.vertex_of_rank.push_back(v);
    devices.push_back(device);
    names.push_back(topo::name_of(*g.vertices[v].pci));
  }
  if (devices.size() < 2)
    return error(xylSystemError,
                 "there are %zu GPUs that the driver knows by UUID; a probe is of links between two",
                 devices.size());
  for (const numa_node& node : list_numa_nodes("")) in.nodes.push_back(node.number);
  XYL_TRY(fill_random(&in.seed, sizeof in.seed));
  const topo::probe_order order = topo::order_probe(in);

  const int ranks = static_cast<int>(devices.size());
  thread_allgather meeting(ranks);
  std::vector<std::unique_ptr<probe_run>> runs;
  std::vector<result> results(devices.size());
  std::vector<std::function<void()>> all;
  for (int r = 0; r < ranks; ++r) {
    const auto at = static_cast<std::size_t>(r);
    runs.push_back(std::make_unique<probe_run>(order, r, devices[at], helper_path(environment.probe_helper)));
    all.push_back([&, r, at] {
      results[at] = runs[at]->run([&](const void* mine, void* theirs, std::size_t bytes) {
        return meeting.exchange(r, mine, theirs, bytes) == 0
                   ? result()
                   : error(xylInternalError, "the threads lost each other");
      });
      meeting.leave(r);
    });
  }
  const std::int64_t began = now_ns();
  XYL_TRY(run_together(all));
  for (result& r : results) XYL_TRY(std::move(r));
  out = topo::evaluate(order, in.gpu_of_rank, std::move(names), runs[0]->answers());
  out.seconds = static_cast<double>(now_ns() - began) * 1e-9;
  return {};
}

std::string topo_probe_text(const topo::probe_report& report, const topo::graph& g) {
  const auto name = [&](std::uint32_t gpu) {
    for (topo::vertex_id v : g.gpus())
      if (g.vertices[v].pci && topo::name_of(*g.vertices[v].pci) == report.gpus[gpu]) return g.vertices[v].name;
    return report.gpus[gpu];
  };
  std::string text =
      format_text("Probe, in %.2f s (GB/s; us one way; 0: not measured)\n%-8s %-8s %9s %9s %7s  %s\n",
                  report.seconds, "from", "to", "push", "pull", "flag", "writes, reads");
  for (const topo::probed_pair& p : report.pairs)
    text += format_text("%-8s %-8s %9.1f %9.1f %7.2f  %s, %s\n", name(p.from).c_str(), name(p.to).c_str(), p.push,
                        p.pull, p.flag_us, topo::name_of(p.writes), topo::name_of(p.reads));
  for (const topo::probed_staging& s : report.staging)
    text += format_text("%-8s host memory of NUMA node %d: %.1f GB/s written, %.1f read\n", name(s.gpu).c_str(),
                        s.node, s.write, s.read);
  if (report.write_collapse > 0)
    text += format_text("writes below two root complexes at once: %.0f%% of those below one; reads: %.0f%%\n",
                        100 * report.write_collapse, 100 * report.read_collapse);
  for (const std::string& problem : report.problems) text += "Problem: " + problem + "\n";
  return text;
}

}  // namespace xyl
