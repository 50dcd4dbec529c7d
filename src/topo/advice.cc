// SPDX-License-Identifier: BSD-3-Clause
// One function per finding. Thresholds are where a person would start to ask, not where a plan changes.
#include "topo/advice.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "topo/acs.hpp"
#include "topo/paths.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

constexpr double below_maximum = 0.9;                         // of what a link can do
constexpr double slow_card = 0.75;                            // of the median card
constexpr std::uint64_t small_bar1 = std::uint64_t{1} << 30;  // boards without resizable BAR have 256 MiB
constexpr std::size_t most_named = 8;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most_named) text += " and " + std::to_string(names.size() - most_named) + " more";
  return text;
}

std::string named(const vertex& v) {
  if (!v.pci || v.name.find(name_of(*v.pci)) != v.name.npos) return v.name;
  return v.name + " (" + name_of(*v.pci) + ")";
}

// A program's environment that leaves it these GPUs, by the numbers that they have here; the driver's own order is
// another one unless it is told.
std::string visible_devices(const std::vector<std::size_t>& numbers) {
  std::string text = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i ? "," : "") + std::to_string(numbers[i]);
  return text;
}

// The link that a GPU hangs on: the direction towards it.
const edge* uplink_of(const graph& g, vertex_id gpu) {
  for (const edge& e : g.edges)
    if (e.to == gpu && e.kind == edge_kind::pcie) return &e;
  return nullptr;
}

struct advisor {
  const graph& g;
  const surroundings& about;
  const std::vector<vertex_id> gpus = g.gpus();
  std::vector<finding> found;

  void add(weight how_much, std::string title, std::string evidence, std::string fix) {
    found.push_back({how_much, std::move(title), std::move(evidence), std::move(fix)});
  }

  void acs_redirect() {
    std::vector<std::string> ports;
    bool any_known = false;
    for (const vertex& v : g.vertices) {
      if (v.kind != vertex_kind::pci_switch && v.kind != vertex_kind::root_port) continue;
      any_known = any_known || v.acs_redirect;
      if (v.acs_redirect == true) ports.push_back(named(v));
    }
    if (!ports.empty() && gpus.size() > 1)
      add(weight::costly, "ACS redirect is on",
          "Traffic between GPUs below " + listed(ports) + " is sent up to the root complex and back.",
          "Until the next boot, as root: for port in $(lspci -Dd ::0604 | cut -d' ' -f1); do setpci -s $port "
          "ECAP_ACS+6.w=0000; done (lspci -vvv then shows ACSCtl: ReqRedir- CmpltRedir-). For good: switch ACS off "
          "in the BIOS, or boot with pci=disable_acs_redir=PORT;PORT. Virtual machines that are given single "
          "devices "
          "need ACS.");
    const bool has_ports = std::any_of(g.vertices.begin(), g.vertices.end(), [](const vertex& v) {
      return v.kind == vertex_kind::pci_switch || v.kind == vertex_kind::root_port;
    });
    if (any_known || !about.live || !has_ports || gpus.size() < 2) return;
    add(weight::unknown, "ACS could not be read",
        acs_reader::available() ? "The configuration space of the PCIe ports is readable for root only."
                                : "This build has no libpci.",
        acs_reader::available() ? "Run xylem-topo --advise as root once." : "Build with libpci-dev installed.");
  }

  void iommu_translates() {
    std::vector<std::string> names;
    for (vertex_id v : gpus)
      if (g.vertices[v].iommu_translates == true) names.push_back(named(g.vertices[v]));
    if (names.empty()) return;
    add(weight::costly, "The IOMMU translates",
        "Every access of " + listed(names) + " to another device or to host memory is translated.",
        "Boot with iommu=pt (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and reboot), or switch the "
        "IOMMU off in the BIOS; cat /sys/kernel/iommu_groups/*/type then says identity.");
  }

  void links_below_maximum() {
    std::vector<std::string> links;
    for (const edge& e : g.edges) {
      const bool down = g.edges[e.reverse].reverse < e.reverse;
      if (!down || e.kind != edge_kind::pcie || e.write.trust < confidence::medium || !e.current.known()) continue;
      if (e.write.from != source::nominal || e.current.value >= below_maximum * e.write.value) continue;
      links.push_back(named(g.vertices[e.to]) + format_text(": %.1f of %.1f GB/s", e.current.value, e.write.value));
    }
    if (links.empty()) return;
    add(weight::worth, "Links are trained below their maximum", listed(links) + ".",
        "Idle GPUs do that; look again under load: nvidia-smi "
        "--query-gpu=pci.bus_id,pcie.link.gen.current,pcie.link.width.current --format=csv. What stays low is a "
        "bad "
        "riser or slot, or a BIOS setting of the slot's generation.");
  }

  void bar1_is_small() {
    std::vector<std::string> names;
    for (vertex_id v : gpus) {
      const std::uint64_t bytes = g.vertices[v].bar1_bytes;
      if (bytes && bytes < small_bar1)
        names.push_back(named(g.vertices[v]) +
                        format_text(": %llu MiB", static_cast<unsigned long long>(bytes >> 20)));
    }
    if (names.empty()) return;
    add(weight::costly, "BAR1 is small", listed(names) + ".",
        "Peers and network cards reach only that much of the GPU's memory at a time. Switch \"Above 4G decoding\" "
        "and "
        "\"Resizable BAR\" on in the BIOS; nvidia-smi -q -d MEMORY shows BAR1.");
  }

  void peer_to_peer_is_refused() {
    std::size_t vetoed = 0;
    std::set<std::string> reasons;
    std::vector<std::string> pairs;
    const path_finder find(g);
    std::map<std::string, unsigned> classes;
    for (const pair_figure& p : g.pairs) {
      if (p.peer_to_peer != false) continue;
      ++vetoed;
      pairs.push_back(g.vertices[p.from].name + " to " + g.vertices[p.to].name);
      ++classes[name_of(find.find_without_nvlink(p.from, p.to))];
    }
    if (vetoed == 0) return;
    for (const nvml_pair& p : about.nvml.refused) reasons.insert(reason_of(p.status));
    std::string evidence = std::to_string(vetoed) + " of " + std::to_string(gpus.size() * (gpus.size() - 1)) +
                           " ordered pairs have no peer-to-peer (" + listed(pairs) + ")";
    for (const auto& [name, count] : classes) evidence += format_text(", %u of them %s", count, name.c_str());
    for (const std::string& reason : reasons) evidence += "; " + reason;
    add(weight::costly, "Peer-to-peer is staged through system memory",
        evidence + ". Between GPUs of one NUMA node that can be fifteen times slower.",
        "nvidia-smi topo -p2p r shows what the driver says. GeForce drivers refuse it; virtual machines need the "
        "GPUs' peer-to-peer passed through; a veto of a probe or of your override file can be lifted there.");
  }

  void one_slow_card() {
    std::vector<double> rates;
    for (vertex_id v : gpus)
      if (const edge* e = uplink_of(g, v); e && e->write.known()) rates.push_back(e->write.value);
    if (rates.size() < 3) return;
    std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
    const double median = rates[rates.size() / 2];
    std::vector<std::string> names;
    std::vector<std::size_t> others;
    std::string slots;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      const vertex& v = g.vertices[gpus[i]];
      const edge* const e = uplink_of(g, gpus[i]);
      if (!e || !e->write.known() || e->write.value >= slow_card * median) {
        others.push_back(i);
        continue;
      }
      names.push_back(named(v) + format_text(": %.1f GB/s", e->write.value));
      if (slots.empty() && v.pci) slots = " -s " + name_of(*v.pci);
    }
    if (names.empty()) return;
    add(weight::costly, names.size() == 1 ? "One slow card drags all" : "Slow cards drag all",
        listed(names) +
            format_text("; the others have %.1f GB/s. A ring runs at the rate of its slowest link.", median),
        "Move it to a slot with all lanes (lspci -vv" + slots +
            " | grep Lnk shows what card and slot can do), or leave it out: " + visible_devices(others) + ".");
  }

  void mixed_sockets() {
    const path_finder find(g);
    std::size_t across = 0;
    std::map<vertex_id, std::vector<std::size_t>> by_memory;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (const vertex_id memory = find.nearest_memory(gpus[i]); memory != no_vertex)
        by_memory[memory].push_back(i);
    for (vertex_id a : gpus)
      for (vertex_id b : gpus) across += a != b && find.find(a, b).what == path_class::sys;
    if (across == 0) return;
    std::string evidence = std::to_string(across) + " of " + std::to_string(gpus.size() * (gpus.size() - 1)) +
                           " ordered pairs cross from one NUMA node to another.";
    std::string fix = "A job that fits on the GPUs of one of them should get those, and its processes beside them:";
    for (const auto& [memory, numbers] : by_memory) {
      std::vector<std::string> names;
      for (std::size_t i : numbers) names.push_back(g.vertices[gpus[i]].name);
      evidence += " Near " + g.vertices[memory].name + ": " + listed(names) + ".";
      const std::optional<unsigned> node = g.vertices[memory].os_index;
      if (!node || numbers.size() > most_named) continue;
      fix += format_text("\n%s numactl --cpunodebind=%u --membind=%u PROGRAM", visible_devices(numbers).c_str(),
                         *node, *node);
    }
    add(weight::worth, "GPUs are on several sockets or NUMA nodes", evidence, fix);
  }

  void mig_is_on() {
    std::vector<std::string> names;
    std::string which;
    for (vertex_id v : gpus) {
      if (!g.vertices[v].mig) continue;
      names.push_back(named(g.vertices[v]));
      if (g.vertices[v].pci) which += (which.empty() ? "" : ",") + name_of(*g.vertices[v].pci);
    }
    if (names.empty()) return;
    add(weight::costly, "MIG is on", listed(names) + ": instances of a GPU have no peer-to-peer.",
        "nvidia-smi -i " + (which.empty() ? "NUMBER" : which) + " -mig 0 (as root, with nothing running on it).");
  }

  void shared_without_mps() {
    if (about.mps_running) return;
    std::vector<std::string> names;
    for (const nvml_device& d : about.nvml.devices)
      if (d.compute_processes > 1)
        names.push_back(name_of(d.pci) + format_text(": %u processes", d.compute_processes));
    if (names.empty()) return;
    add(weight::costly, "Processes share a GPU without MPS", listed(names) + ".",
        "The driver gives them the GPU in turns, and a kernel that waits for another process waits for its turn: "
        "nvidia-cuda-mps-control -d, before the processes start.");
  }
};

}  // namespace

std::vector<finding> find_advice(const graph& g, const surroundings& about) {
  advisor a{.g = g, .about = about, .found = {}};
  a.acs_redirect();
  a.iommu_translates();
  a.links_below_maximum();
  a.bar1_is_small();
  a.peer_to_peer_is_refused();
  a.one_slow_card();
  a.mixed_sockets();
  a.mig_is_on();
  a.shared_without_mps();
  std::stable_sort(a.found.begin(), a.found.end(),
                   [](const finding& x, const finding& y) { return x.how_much < y.how_much; });
  return std::move(a.found);
}

}  // namespace xyl::topo
