// SPDX-License-Identifier: BSD-3-Clause
// One pass over the elements. Links between GPUs are collected and made at the end, when all GPUs are known: their
// targets are PCI addresses, of GPUs that may come later, of NVSwitches that are not in the file, of nothing at all
// ("fffffff:ff:ff.0"), or of the GPU itself.
#include "topo/nccl_reader.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topo/assembly.hpp"
#include "topo/nvlink_rate.hpp"
#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

constexpr unsigned class_bridge = 0x0604;
constexpr unsigned class_nvswitch = 0x068000;
constexpr std::size_t most_numa_nodes = 256;

std::optional<long> number(std::optional<std::string_view> text, int base = 10) {
  if (!text) return std::nullopt;
  if (base == 16 && text->starts_with("0x")) text->remove_prefix(2);
  long n = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), n, base);
  if (status != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return n;
}

// GB/s of one of AMD's links between GPUs, one direction, by the name of the chip.
double xgmi_rate(long gcn) { return gcn >= 910 ? 50 : 46; }

struct wanted_link {
  vertex_id from;
  std::optional<pci_address> target;
  unsigned target_class;
  unsigned count;
  double rate;
};

class nccl_reader final : public xml_handler {
 public:
  explicit nccl_reader(graph& g) : graph_(g), assembly_(g) {}

  result open(const xml_element& e) override {
    open_.push_back(open_.empty() ? level{} : level{.above = open_.back().above, .pci = open_.back().pci});
    if (e.depth == 0) return {};
    if (e.name == "cpu") return cpu(e);
    if (e.name == "pci") return pci(e);
    if (e.name == "gpu") return gpu(e);
    if (e.name == "nvlink" || e.name == "xgmi") return link(e);
    if (e.name == "net") return net(e);
    return {};
  }

  result close(std::string_view) override {
    open_.pop_back();
    return {};
  }
  result text(std::string_view) override { return {}; }

  void finish() {
    note_unknown();
    make_links();
    assembly_.finish();
  }

 private:
  struct level {
    vertex_id above = no_vertex;  // what a <pci> here hangs on
    vertex_id pci = no_vertex;    // the device that a <gpu> or <net> here describes
    long gcn = 0;
  };

  level& parent() { return open_[open_.size() - 2]; }
  std::string address_text(vertex_id v) const {
    const auto& pci = graph_.vertices[v].pci;
    return pci ? topo::name_of(*pci) : "an address that is taken";
  }

  void note_unknown() {
    if (unknown_.empty()) return;
    std::string text = "The file does not say what these devices are; taken as GPUs:";
    for (const auto& [v, line] : unknown_) {
      if (text.size() > 1000) break;
      text += " " + address_text(v) + " (line " + std::to_string(line) + ")";
    }
    assembly_.note(text + ".");
  }

  result cpu(const xml_element& e) {
    if (e.depth != 1) return error(xylInvalidArgument, "a <cpu> that is not directly in <system>");
    const std::optional<long> id = number(e.find("numaid"));
    if (!id || *id < -1 || *id > 65535)
      return error(xylInvalidArgument, "numaid \"%s\" of a <cpu>; -1 to 65535 is expected",
                   shown(e.find("numaid").value_or("")).c_str());
    const auto at = numa_.find(*id);
    if (at != numa_.end()) {
      assembly_.note("Two <cpu> have numaid " + std::to_string(*id) + "; taken as one (line " +
                     std::to_string(e.line) + ").");
      open_.back().above = at->second;
    } else {
      if (numa_.size() >= most_numa_nodes) return error(xylInvalidArgument, "more than %zu <cpu>", most_numa_nodes);
      open_.back().above = assembly_.add_numa_node(*id < 0 ? std::optional<unsigned>()
                                                           : std::optional<unsigned>(static_cast<unsigned>(*id)));
      numa_.emplace(*id, open_.back().above);
    }
    return {};
  }

  result pci(const xml_element& e) {
    if (parent().above == no_vertex) return error(xylInvalidArgument, "a <pci> that is not in a <cpu>");
    const std::string_view text = e.find("busid").value_or("");
    const std::optional<pci_address> address = parse_pci_address(text);
    if (!address)
      return error(xylInvalidArgument, "busid \"%s\" of a <pci> is not a PCI address", shown(text).c_str());
    vertex_id above = parent().above;
    const bool outermost = graph_.vertices[above].kind == vertex_kind::numa_node;
    if (outermost)
      above = assembly_.add_root_complex("root complex of " + topo::name_of(*address), above);
    else if (graph_.vertices[above].kind == vertex_kind::gpu || graph_.vertices[above].kind == vertex_kind::nic)
      promote(above);

    const std::optional<long> pci_class = number(e.find("class"), 16);
    const auto vendor = static_cast<unsigned>(number(e.find("vendor"), 16).value_or(0));
    const bool bridge = pci_class && *pci_class >> 8 == class_bridge;
    vertex_id added = no_vertex;
    if (bridge) {
      // A switch is described by its upstream port; a virtual root port looks the same but for its link.
      const bool informative = end_of(e, true).most.has_value();
      const bool root_port = outermost && !informative;
      added = graph_.add(
          make_vertex(root_port ? vertex_kind::root_port : vertex_kind::pci_switch,
                      std::string(root_port ? "root port " : "PCIe switch ") + topo::name_of(*address), address));
      if (!bridges_.emplace(*address, added).second)
        assembly_.note("Two bridges claim the PCI address " + topo::name_of(*address) + " (line " +
                       std::to_string(e.line) + ").");
    } else {
      const auto kind = pci_class ? device_kind(static_cast<unsigned>(*pci_class >> 8), vendor) : vertex_kind::gpu;
      if (!kind) {
        open_.back().above = above;
        return {};
      }
      added = assembly_.add_device(make_vertex(*kind, {}, address), {});
      if (!pci_class) unknown_.emplace(added, e.line);
      open_.back().pci = added;
    }
    connect(graph_, above, added, {}, end_of(e, bridge), confidence::low);
    open_.back().above = added;
    return {};
  }

  // NCCL's files leave the vendor out where it does not matter to NCCL.
  static std::optional<vertex_kind> device_kind(unsigned pci_class, unsigned vendor) {
    if (const auto kind = kind_of_device(pci_class, vendor)) return kind;
    if (vendor == 0 && (pci_class == 0x0302 || pci_class == 0x0380)) return vertex_kind::gpu;
    return std::nullopt;
  }

  // A device without a class that has others below it is a bridge.
  void promote(vertex_id v) {
    if (unknown_.erase(v) == 0) return;
    graph_.vertices[v].kind = vertex_kind::pci_switch;
    graph_.vertices[v].name = "PCIe switch " + address_text(v);
  }

  static link_end end_of(const xml_element& e, bool bridge) {
    const std::optional<double> rate = parse_transfer_rate(e.find("link_speed").value_or(""));
    const std::optional<long> width = number(e.find("link_width"));
    if (!rate || !width || *width <= 0 || *width > 32) return {};
    return {.most = believable_link(*rate, static_cast<unsigned>(*width), bridge), .now = {}};
  }

  result gpu(const xml_element& e) {
    const vertex_id v = open_.back().pci;
    if (v == no_vertex) return error(xylInvalidArgument, "a <gpu> that is not in a <pci>");
    unknown_.erase(v);
    if (graph_.vertices[v].kind != vertex_kind::gpu) {
      assembly_.note("The device at " + address_text(v) + " has the class of a NIC and a <gpu> in it.");
      graph_.vertices[v].kind = vertex_kind::gpu;
    }
    open_.back().gcn = number(e.find("gcn")).value_or(0);
    // On AMD's GPUs, sm is the number of their compute units.
    const long sm = number(e.find("sm")).value_or(0);
    if (open_.back().gcn == 0 && sm > 0 && sm < 1000) graph_.vertices[v].sm = static_cast<unsigned>(sm);
    return {};
  }

  result link(const xml_element& e) {
    const vertex_id from = open_.back().pci;
    if (from == no_vertex || graph_.vertices[from].kind != vertex_kind::gpu)
      return error(xylInvalidArgument, "a <%s> that is not in a <gpu>", std::string(e.name).c_str());
    const std::optional<long> count = number(e.find("count"));
    if (!count || *count < 0 || *count > 1024)
      return error(xylInvalidArgument, "count \"%s\" of a <%s>", shown(e.find("count").value_or("")).c_str(),
                   std::string(e.name).c_str());
    const double rate = e.name == "xgmi" ? xgmi_rate(parent().gcn) : nvlink_rate_of_sm(graph_.vertices[from].sm);
    links_.push_back({from, parse_pci_address(e.find("target").value_or("")),
                      static_cast<unsigned>(number(e.find("tclass"), 16).value_or(0)),
                      static_cast<unsigned>(*count), rate});
    return {};
  }

  static std::string net_name(const xml_element& e) { return shown(e.find("name").value_or("")); }

  result net(const xml_element& e) {
    if (const vertex_id v = open_.back().pci; v != no_vertex) {
      std::string& name = graph_.vertices[v].name;
      name += (name.empty() ? "" : ", ") + net_name(e);
      return {};
    }
    if (open_.back().above == no_vertex) return error(xylInvalidArgument, "a <net> that is not in a <cpu>");
    const vertex_id nic =
        assembly_.add_device(make_vertex(vertex_kind::nic, {}), shown(e.find("name").value_or("")));
    graph_.link(open_.back().above, nic, edge_kind::internal, {}, {});
    return {};
  }

  void make_links() {
    std::map<pci_address, vertex_id> gpus;
    for (vertex_id v : graph_.gpus())
      if (graph_.vertices[v].pci) gpus.emplace(*graph_.vertices[v].pci, v);
    std::map<vertex_id, std::pair<unsigned, double>> to_switch;
    std::vector<vertex_id> unusable;
    for (const wanted_link& l : links_) {
      const auto peer = l.target ? gpus.find(*l.target) : gpus.end();
      if (l.target_class == class_nvswitch)
        to_switch[l.from] = {to_switch[l.from].first + l.count, l.rate};
      else if (peer != gpus.end() && peer->second != l.from)
        assembly_.add_nvlinks(l.from, peer->second, l.count, l.rate, confidence::low);
      else if (l.count > 0)
        unusable.push_back(l.from);
    }
    for (const auto& [v, links] : to_switch)
      assembly_.add_nvlinks(v, assembly_.nv_switch(), links.first, links.second, confidence::low);
    unusable.erase(std::unique(unusable.begin(), unusable.end()), unusable.end());
    for (vertex_id v : unusable)
      assembly_.note("NVLinks of the GPU at " + address_text(v) +
                     " lead to itself or to nothing in the file; left out.");
  }

  graph& graph_;
  assembly assembly_;
  std::vector<level> open_;
  std::map<long, vertex_id> numa_;
  std::map<pci_address, vertex_id> bridges_;
  std::map<vertex_id, unsigned long> unknown_;  // without a class -> line
  std::vector<wanted_link> links_;
};

}  // namespace

result import_nccl(std::string_view text, const xml_limits& limits, graph& out) {
  graph g;
  nccl_reader reader(g);
  XYL_TRY(read_xml(text, limits, reader));
  reader.finish();
  out = std::move(g);
  return {};
}

}  // namespace xyl::topo
