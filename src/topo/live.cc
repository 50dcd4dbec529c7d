// SPDX-License-Identifier: BSD-3-Clause
// Small files, one value each. The port above a device is the folder above its own in the tree of devices.
#include "topo/live.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "topo/acs.hpp"
#include "topo/assembly.hpp"
#include "topo/figure_merge.hpp"
#include "topo/pci_link.hpp"
#include "topo/xml.hpp"

namespace xyl::topo {
namespace {

namespace fs = std::filesystem;

// Without the line's end; empty if there is no such file.
std::string value_of(const std::string& path) {
  std::string text;
  if (!read_small_file(path.c_str(), 1 << 16, text).ok()) return {};
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

std::optional<std::uint64_t> whole(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t n = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), n, base);
  if (status != std::errc{} || end == text.data()) return std::nullopt;
  return n;
}

class sysfs {
 public:
  explicit sysfs(const std::string& sys) : root_(sys), acs_(sys) {}

  std::string folder(const pci_address& a) const { return root_ + "/bus/pci/devices/" + topo::name_of(a); }

  bool knows(const pci_address& a) const {
    std::error_code failure;
    return fs::exists(folder(a), failure);
  }

  link_end end_of(const pci_address& a, bool bridge) const {
    return {.most = rate_of(folder(a) + "/max_link_", bridge),
            .now = rate_of(folder(a) + "/current_link_", bridge)};
  }

  std::optional<pci_address> port_above(const pci_address& a) const {
    std::error_code failure;
    const fs::path real = fs::canonical(folder(a), failure);
    if (failure) return std::nullopt;
    return parse_pci_address(real.parent_path().filename().string());
  }

  std::optional<bool> redirects(const pci_address& port) { return acs_.redirects(port); }

  std::optional<bool> translates(const pci_address& a) const {
    if (!knows(a)) return std::nullopt;
    const std::string type = value_of(folder(a) + "/iommu_group/type");
    if (type.empty()) {
      std::error_code failure;
      // No group: no IOMMU is on. A group whose type cannot be read says nothing.
      if (fs::exists(folder(a) + "/iommu_group", failure)) return std::nullopt;
      return false;
    }
    return type != "identity";
  }

  // Of an NVIDIA GPU, region 1 is BAR1: "first last flags", in hexadecimal.
  std::uint64_t bar1_bytes(const pci_address& a) const {
    const std::string text = value_of(folder(a) + "/resource");
    const std::size_t line = text.find('\n');
    if (line == text.npos) return 0;
    const std::string_view second = std::string_view(text).substr(line + 1);
    const std::size_t blank = second.find(' ');
    const auto first = whole(second, 16);
    const auto last = blank == second.npos ? std::nullopt : whole(second.substr(blank + 1), 16);
    return first && last && *last > *first ? *last - *first + 1 : 0;
  }

  unsigned class_of(const pci_address& a) const {
    return static_cast<unsigned>(whole(value_of(folder(a) + "/class"), 16).value_or(0) >> 8);
  }

 private:
  static std::optional<double> rate_of(const std::string& prefix, bool bridge) {
    const std::optional<double> rate = parse_transfer_rate(value_of(prefix + "speed"));
    const std::optional<std::uint64_t> lanes = whole(value_of(prefix + "width"), 10);
    if (!rate || !lanes || *lanes > 32) return std::nullopt;
    return believable_link(*rate, static_cast<unsigned>(*lanes), bridge);
  }

  std::string root_;
  acs_reader acs_;
};

void put(figure& into, const figure& found, join how) {
  if (how == join::later_wins || !into.known()) merge(into, found);
}

void put(std::optional<bool>& into, const std::optional<bool>& found, join how) {
  if (found && (how == join::later_wins || !into)) into = found;
}

std::optional<double> lesser(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b ? std::optional(std::min(*a, *b)) : a ? a : b;
}

// A GPU of a file that does not say what its devices are may be a NIC.
void correct_kind(const sysfs& s, vertex& v) {
  const std::optional<vertex_kind> kind = kind_of_device(s.class_of(*v.pci), 0);
  if (v.kind == vertex_kind::gpu && kind == vertex_kind::nic) {
    v.kind = vertex_kind::nic;
    v.name.clear();
  }
}

void add_link(sysfs& s, graph& g, std::uint32_t there, join how) {
  edge& down = g.edges[there];
  edge& up = g.edges[down.reverse];
  vertex& above = g.vertices[down.from];
  const vertex& below = g.vertices[down.to];
  if (!below.pci || !s.knows(*below.pci)) return;
  const std::optional<pci_address> port = s.port_above(*below.pci);
  const link_end of_port = port ? s.end_of(*port, true) : link_end{};
  const link_end of_device = s.end_of(*below.pci, below.kind == vertex_kind::pci_switch);
  // A device beside the root ports is a virtual machine's, and its link a tale.
  const confidence trust = port ? confidence::medium : confidence::low;
  if (const auto most = lesser(of_port.most, of_device.most))
    for (edge* e : {&down, &up})
      for (figure* f : {&e->write, &e->read}) put(*f, {*most, source::nominal, trust}, how);
  if (const auto now = lesser(of_port.now, of_device.now))
    for (edge* e : {&down, &up}) put(e->current, {*now, source::nominal, trust}, how);
  if (!port || (above.kind != vertex_kind::root_port && above.kind != vertex_kind::pci_switch)) return;
  // A switch redirects if any of its ports towards devices does.
  const std::optional<bool> redirects = s.redirects(*port);
  if (redirects && above.acs_redirect && how == join::later_wins)
    above.acs_redirect = *above.acs_redirect || *redirects;
  else
    put(above.acs_redirect, redirects, how);
}

}  // namespace

bool has_pci(const std::string& sys) {
  std::error_code failure;
  return fs::is_directory(sys + "/bus/pci/devices", failure);
}

void add_sysfs(graph& g, const std::string& sys, join how) {
  sysfs s(sys);
  for (vertex& v : g.vertices) {
    if (!v.pci || (v.kind != vertex_kind::gpu && v.kind != vertex_kind::nic) || !s.knows(*v.pci)) continue;
    correct_kind(s, v);
    put(v.iommu_translates, s.translates(*v.pci), how);
    if (v.kind == vertex_kind::gpu && (v.bar1_bytes == 0 || how == join::later_wins))
      if (const std::uint64_t bytes = s.bar1_bytes(*v.pci)) v.bar1_bytes = bytes;
  }
  // Readers link from what is above to what is below, so the first direction of each link goes down.
  for (std::uint32_t e = 0; e < g.edges.size(); ++e)
    if (g.edges[e].kind == edge_kind::pcie && g.edges[e].reverse > e) add_link(s, g, e, how);
  number_devices(g);
}

}  // namespace xyl::topo
