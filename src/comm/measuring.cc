// SPDX-License-Identifier: BSD-3-Clause
//
// Rank 0's decisions about measuring: whether to probe links, and under which keys what was measured is kept.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "comm/machine_facts.hpp"
#include "os/machine.hpp"
#include "os/numa.hpp"
#include "topo/pci_link.hpp"
#include "topo/probe_cache.hpp"

namespace xyl {

unsigned processors_of(const planning_input& in) {
  cpu_set_t together{};
  for (const host_facts& h : in.hosts) CPU_OR(&together, &together, &h.processors);
  return static_cast<unsigned>(CPU_COUNT(&together));
}

topo::tuning_key tuning_key_of(const planning_input& in, topo::tuning_key machine) {
  std::vector<std::string> places;
  if (in.devices.empty()) {
    // Homes are shared by machines, which are told apart by name; what else matters of one is its processors.
    char host[256] = {};
    static_cast<void>(::gethostname(host, sizeof host - 1));
    const std::vector<numa_node> nodes = list_numa_nodes(in.root);
    for (const host_facts& h : in.hosts) places.push_back(std::to_string(numa_node_of(h.processors, nodes)));
    std::sort(places.begin(), places.end());
    machine.placement = format_text("host memory of %s, %u processors, instructions %d, ranks on nodes", host,
                                    processors_of(in), static_cast<int>(in.wishes.host_instructions));
  } else {
    for (const device_handle& h : in.devices) places.push_back(uuid_text(h.uuid));
    // Which rank is where makes no difference.
    std::sort(places.begin(), places.end());
    machine.placement =
        format_text("device memory, %s, %u blocks, ranks on", in.is_staged ? "staged" : "straight", in.max_blocks);
  }
  for (const std::string& place : places) machine.placement += " " + place;
  return machine;
}

probed_gpus list_gpus(const planning_input& in) {
  probed_gpus out;
  for (std::size_t r = 0; r < in.hosts.size(); ++r) {
    std::size_t gpu = out.names.size();
    for (std::size_t other = 0; other < r && !in.devices.empty(); ++other)
      if (std::memcmp(in.devices[other].uuid, in.devices[r].uuid, sizeof in.devices[r].uuid) == 0)
        gpu = std::min<std::size_t>(gpu, out.gpu_of_rank[other]);
    out.gpu_of_rank.push_back(static_cast<std::uint32_t>(gpu));
    if (gpu == out.names.size())
      out.names.push_back(in.devices.empty() ? "rank " + std::to_string(r)
                                             : topo::name_of(address_of(in.devices[r])));
  }
  return out;
}

probe_decision decide_probe(const planning_input& in) {
  probe_decision out;
  std::memset(&out.order, 0, sizeof out.order);
  const bool on_host = in.devices.empty();
  const probed_gpus gpus = list_gpus(in);
  topo::probe_plan_input plan{
      .gpu_of_rank = gpus.gpu_of_rank, .vertex_of_rank = {}, .nodes = {}, .on_host = on_host};
  const probe_use wanted = in.wishes.probe;
  if (wanted == probe_use::never || in.hosts.size() < 2 || in.hosts.size() > topo::probe_most_ranks) return out;
  if (wanted == probe_use::automatic && (on_host || gpus.names.size() < 2)) return out;

  machine_facts machine;
  if (!on_host) {
    // What is wrong with a file is said when the plan is made.
    if (!read_described_graph(in, machine).ok()) return out;
    out.key = topo::key_of(machine.g, machine.driver);
    out.key.placement = "links";
    // Without the driver's word neither it nor the GPUs would be told from others.
    out.may_keep = in.cache_folder && !machine.driver.empty();
    if (out.may_keep && wanted == probe_use::automatic) {
      topo::probe_report kept;
      const std::string path = *in.cache_folder + "/" + topo::file_name_of(out.key, "probe");
      if (topo::load_probe(path, out.key, kept, out.note) && kept.proves(gpus.names)) {
        out.kept = std::move(kept);
        return out;
      }
    }
    plan.vertex_of_rank = place_ranks(in, machine);
    plan.machine = &machine.g;
    for (const numa_node& node : list_numa_nodes(in.root)) plan.nodes.push_back(node.number);
  }
  if (!fill_random(&plan.seed, sizeof plan.seed).ok()) plan.seed = 1;
  out.order = topo::order_probe(plan);
  return out;
}

}  // namespace xyl
