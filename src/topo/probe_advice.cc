// SPDX-License-Identifier: BSD-3-Clause
// What only a measurement can tell, one function per finding; the rest is in advice.cc.
#include <algorithm>
#include <map>

#include "topo/cost_constants.hpp"
#include "topo/paths.hpp"
#include "topo/pci_link.hpp"
#include "topo/probe_report.hpp"

namespace xyl::topo {
namespace {

constexpr double far_below = 0.5;  // of the way through host memory
// Of what the links of the path can do: what is trained to half of its lanes or to the generation before has half,
// and no healthy link was seen with less than seven tenths.
constexpr double half_a_link = 0.6;
constexpr double slow_card = 0.75;  // of the median card
constexpr double collapse = 0.8;
constexpr double slow_flag_us = 100;
constexpr double busy_both_ways = 0.6;
constexpr std::size_t most_named = 6;

struct probe_advisor {
  const probe_report& report;
  const graph& g;
  std::vector<finding> found;

  // As the graph names it, with the address.
  std::string name(std::uint32_t gpu) const {
    const std::optional<pci_address> address = parse_pci_address(report.gpus[gpu]);
    for (vertex_id v : g.gpus())
      if (address && g.vertices[v].pci == address) return g.vertices[v].name + " (" + report.gpus[gpu] + ")";
    return report.gpus[gpu];
  }
  vertex_id vertex_of(std::uint32_t gpu) const {
    const std::optional<pci_address> address = parse_pci_address(report.gpus[gpu]);
    for (vertex_id v : g.gpus())
      if (address && g.vertices[v].pci == address) return v;
    return no_vertex;
  }
  static std::string listed(const std::vector<std::string>& items) {
    std::string text;
    for (std::size_t i = 0; i < std::min(items.size(), most_named); ++i) text += (i ? "; " : "") + items[i];
    if (items.size() > most_named) text += "; and " + std::to_string(items.size() - most_named) + " more";
    return text;
  }
  void add(weight how_much, std::string title, std::string evidence, std::string fix) {
    found.push_back({how_much, std::move(title), std::move(evidence), std::move(fix)});
  }

  void links_that_lie() {
    std::vector<std::string> pairs;
    for (const probed_pair& p : report.pairs) {
      if (is_veto(p.writes))
        pairs.push_back(name(p.from) + " writes to " + name(p.to) + ": " + name_of(p.writes));
      else if (is_veto(p.reads))
        pairs.push_back(name(p.to) + " reads from " + name(p.from) + ": " + name_of(p.reads));
    }
    if (pairs.empty()) return;
    add(weight::costly, "Peer-to-peer does not do what the driver says", listed(pairs) + ".",
        "Look for ACS redirect and for an IOMMU that translates (xylem-topo --advise as root); a virtual machine's "
        "host may not pass peer-to-peer on; cuda-samples' p2pBandwidthLatencyTest should fail as well. After a "
        "change: XYLEM_PROBE=always once.");
  }

  void unproven() {
    if (report.problems.empty()) return;
    add(weight::costly, "Links could not be probed", listed(report.problems) + ".",
        "In exclusive compute mode a second process gets no GPU: nvidia-smi -c DEFAULT, or run under MPS. Where "
        "xylem-probe is missing, install it beside the library or set XYLEM_PROBE_HELPER. XYLEM_PROBE=never "
        "believes the driver.");
  }

  // By the links of the path, of which the narrowest is known from the hardware's description.
  void below_maximum() {
    const cost_constants constants;
    const path_finder finder(g);
    std::vector<std::string> links;
    for (const probed_pair& p : report.pairs) {
      const vertex_id from = vertex_of(p.from), to = vertex_of(p.to);
      if (p.push == 0 || from == no_vertex || to == no_vertex || from == to) continue;
      double most = 0;
      for (std::uint32_t e : finder.find(from, to).edges) {
        const edge& one = g.edges[e];
        const double share = one.kind == edge_kind::pcie     ? constants.pcie_store_share
                             : one.kind == edge_kind::nvlink ? constants.nvlink_share
                                                             : 0;
        if (share == 0 || one.write.from != source::nominal || one.write.trust < confidence::medium) continue;
        const double payload = one.write.value * share;
        if (most == 0 || payload < most) most = payload;
      }
      if (p.push < half_a_link * most)
        links.push_back(name(p.from) + " to " + name(p.to) + format_text(": %.1f of %.1f GB/s", p.push, most));
    }
    if (links.empty()) return;
    add(weight::costly, "Links are far below their maximum under load", listed(links) + ".",
        "Compare nvidia-smi --query-gpu=pci.bus_id,pcie.link.gen.current,pcie.link.width.current --format=csv "
        "while "
        "something runs (NVLinks: nvidia-smi nvlink -s): a link that stays low has a bad riser or slot. If the "
        "links "
        "are fine, peer-to-peer is redirected on its way: ACS, IOMMU, a virtual machine.");
  }

  void slower_than_staged() {
    std::vector<std::string> pairs;
    for (const probed_pair& p : report.pairs) {
      double staged = 0;
      for (const probed_staging& out : report.staging)
        for (const probed_staging& in : report.staging)
          if (out.gpu == p.from && in.gpu == p.to && out.node == in.node)
            staged = std::max(staged, std::min(out.write, in.read));
      if (p.from != p.to && p.push > 0 && p.push < far_below * staged)
        pairs.push_back(name(p.from) + " to " + name(p.to) +
                        format_text(": %.1f GB/s, and %.1f through host memory", p.push, staged));
    }
    if (pairs.empty()) return;
    add(weight::costly, "Peer-to-peer is slower than host memory", listed(pairs) + ".",
        "Processors pass writes between their root complexes on slowly. The same GPUs below one switch or root "
        "complex would not cross it; \"peer_to_peer\": false for these pairs in XYLEM_TOPO_OVERRIDE plans around "
        "them.");
  }

  // Of two processes that run at the same time on one GPU a flag takes a microsecond.
  void turns_on_one_gpu() {
    std::vector<std::string> gpus;
    for (const probed_pair& p : report.pairs)
      if (p.from == p.to && p.writes == probe_verdict::good && (p.flag_us == 0 || p.flag_us > slow_flag_us))
        gpus.push_back(name(p.from) + (p.flag_us == 0 ? ": a flag did not come in time"
                                                      : format_text(": %.0f us for a flag", p.flag_us)));
    if (gpus.empty()) return;
    add(weight::costly, "Ranks on one GPU take turns", listed(gpus) + ".",
        "Without MPS the driver runs one process at a time, and every wait for another one waits for its turn: "
        "nvidia-cuda-mps-control -d, before the processes start.");
  }

  void one_slow_card() {
    std::map<std::uint32_t, double> best;
    for (const probed_pair& p : report.pairs)
      if (p.from != p.to) {
        best[p.from] = std::max(best[p.from], p.push);
        best[p.to] = std::max(best[p.to], p.push);
      }
    std::vector<double> rates;
    for (const auto& [gpu, rate] : best)
      if (rate > 0) rates.push_back(rate);
    if (rates.size() < 3) return;
    std::nth_element(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2), rates.end());
    const double median = rates[rates.size() / 2];
    std::vector<std::string> names;
    for (const auto& [gpu, rate] : best)
      if (rate > 0 && rate < slow_card * median) names.push_back(name(gpu) + format_text(": %.1f GB/s", rate));
    if (names.empty()) return;
    add(weight::costly, names.size() == 1 ? "One slow card drags all" : "Slow cards drag all",
        listed(names) + format_text(" at best; the others reach %.1f GB/s.", median),
        "Move it to a slot with all lanes (lspci -vv: LnkCap and LnkSta under load), or leave it out with "
        "CUDA_VISIBLE_DEVICES.");
  }

  void write_collapse() {
    if (report.write_collapse == 0 || report.write_collapse >= collapse) return;
    add(weight::worth, "Writes to two root complexes collapse",
        format_text(
            "Two GPUs of one switch that write below two root complexes at once get %.0f%% of what they get "
            "below one%s.",
            100 * report.write_collapse,
            report.read_collapse > 0 ? format_text("; reads %.0f%%", 100 * report.read_collapse).c_str() : ""),
        "Plans avoid it. It belongs to some switches with ACS or certain firmware; ask the vendor of the board.");
  }

  void two_ways() {
    if (report.both_ways == 0 || report.both_ways >= busy_both_ways) return;
    add(weight::worth, "Links are not used both ways at once",
        format_text("While the way back is used too, a direction has %.0f%% of its rate alone.",
                    100 * report.both_ways),
        "Nothing to be set; rings in both directions are of no use here.");
  }
};

}  // namespace

std::vector<finding> find_probed_advice(const probe_report& report, const graph& g) {
  probe_advisor a{.report = report, .g = g, .found = {}};
  a.links_that_lie();
  a.unproven();
  // What host memory does is up to whatever else runs on the processors.
  if (report.on_host) return std::move(a.found);
  a.below_maximum();
  a.slower_than_staged();
  a.turns_on_one_gpu();
  a.one_slow_card();
  a.write_collapse();
  a.two_ways();
  std::stable_sort(a.found.begin(), a.found.end(),
                   [](const finding& x, const finding& y) { return x.how_much < y.how_much; });
  return std::move(a.found);
}

}  // namespace xyl::topo
