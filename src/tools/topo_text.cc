// SPDX-License-Identifier: BSD-3-Clause
// Everything is text in memory: the caller prints it, and the tests read it.
#include "tools/topo_text.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "topo/paths.hpp"
#include "topo/pci_link.hpp"

namespace xyl {
namespace {

using namespace topo;

// Names may come from a file; control characters would reach a terminal.
std::string printable(const std::string& text) {
  std::string out;
  for (char c : text) out += static_cast<unsigned char>(c) < ' ' || c == 0x7f ? '?' : c;
  return out;
}

std::string described(const graph& g, vertex_id id) {
  const vertex& v = g.vertices[id];
  std::string text = printable(v.name);
  if (v.pci && v.name.find(name_of(*v.pci)) == v.name.npos) text += "  " + name_of(*v.pci);
  if (v.kind != vertex_kind::gpu) {
    if (v.acs_redirect == true) text += "  ACS redirect";
    return text;
  }
  if (v.sm) text += format_text("  sm_%u", v.sm);
  if (v.bar1_bytes) text += format_text("  BAR1 %llu MiB", static_cast<unsigned long long>(v.bar1_bytes >> 20));
  if (v.mig) text += "  MIG";
  if (v.iommu_translates == true) text += "  IOMMU translates";
  if (!v.uuid.empty()) text += "  " + printable(v.uuid);
  return text;
}

struct tree_printer {
  const graph& g;
  const std::vector<vertex_id> parents = tree_parents(g);
  std::vector<std::vector<std::uint32_t>> below{g.vertices.size()};  // edges towards what hangs on each vertex
  std::vector<bool> printed = std::vector<bool>(g.vertices.size(), false);
  std::string text;

  void print(vertex_id v, unsigned depth, const std::string& link) {
    if (printed[v] || depth > 200) return;
    printed[v] = true;
    text += std::string(2 * std::size_t{depth}, ' ') + described(g, v) + link + "\n";
    for (std::uint32_t e : below[v]) {
      const edge& down = g.edges[e];
      std::string capacity;
      if (down.kind == edge_kind::pcie || down.write.known()) {
        capacity = "  " + shown_capacity(down.write);
        if (down.read != down.write) capacity += ", read " + shown_capacity(down.read);
        if (down.current.known() && down.write.known() && down.current.value < 0.9 * down.write.value)
          capacity += format_text(" (now %.1f)", down.current.value);
      }
      print(down.to, depth + 1, capacity);
    }
  }
};

}  // namespace

std::string shown_capacity(const figure& f) {
  if (!f.known()) return "?";
  const char* by = f.from == source::measured ? " (measured)" : f.from == source::user ? " (told)" : "";
  return format_text("%s%.1f GB/s%s", f.trust == confidence::low ? "~" : "", f.value, by);
}

std::vector<vertex_id> tree_parents(const graph& g) {
  std::vector<vertex_id> parents(g.vertices.size(), no_vertex);
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    const edge& link = g.edges[e];
    if (link.reverse < e || link.kind == edge_kind::nvlink || link.kind == edge_kind::socket_link) continue;
    // Readers link downwards, but for a NUMA node and the socket that it is in.
    const bool upwards = g.vertices[link.to].kind == vertex_kind::socket;
    vertex_id& parent = parents[upwards ? link.from : link.to];
    if (parent == no_vertex) parent = upwards ? link.to : link.from;
  }
  return parents;
}

std::string topo_tree(const graph& g) {
  tree_printer tree{.g = g, .text = {}};
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    const edge& link = g.edges[e];
    if (link.kind != edge_kind::nvlink && link.kind != edge_kind::socket_link && tree.parents[link.to] == link.from)
      tree.below[link.from].push_back(e);
  }
  for (vertex_id v = 0; v < g.vertices.size(); ++v)
    if (tree.parents[v] == no_vertex && g.vertices[v].kind != vertex_kind::nv_switch) tree.print(v, 0, "");
  // What a file has tied into a ring has no outermost vertex.
  for (vertex_id v = 0; v < g.vertices.size(); ++v)
    if (g.vertices[v].kind != vertex_kind::nv_switch) tree.print(v, 0, "");
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    const edge& link = g.edges[e];
    if (link.kind != edge_kind::nvlink || link.reverse < e) continue;
    tree.text += printable(g.vertices[link.from].name) + " - " + printable(g.vertices[link.to].name) +
                 format_text("  %u NVLinks  ", link.links) + shown_capacity(link.write) + "\n";
  }
  return tree.text;
}

std::string topo_matrix(const graph& g) {
  const std::vector<vertex_id> gpus = g.gpus();
  if (gpus.empty()) return "There is no GPU.\n";
  const path_finder find(g);
  const auto cell = [](const std::string& text) { return format_text("%-7s", text.c_str()); };
  std::string text = cell("");
  for (std::size_t i = 0; i < gpus.size(); ++i) text += cell(format_text("GPU%zu", i));
  text += "NUMA\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += cell(format_text("GPU%zu", i));
    for (vertex_id to : gpus) text += cell(to == gpus[i] ? "X" : name_of(find.find(gpus[i], to)));
    const vertex_id memory = find.nearest_memory(gpus[i]);
    const bool known = memory != no_vertex && g.vertices[memory].os_index;
    text += (known ? std::to_string(*g.vertices[memory].os_index) : std::string("?")) + "\n";
  }
  return text +
         "\nNV#: NVLinks; PIX: one PCIe switch; PXB: several; PHB: one root complex; NODE: several root complexes "
         "of a\n"
         "NUMA node; SYS: between NUMA nodes; HOST: no peer-to-peer, through host memory. NUMA: the node nearest "
         "to "
         "it.\n"
         "GB/s above: what the link over a device carries in one direction; ~: a guess; ?: nothing is known.\n";
}

std::string topo_rates(const graph& g) {
  const auto is_gpu = [&](vertex_id v) { return g.vertices[v].kind == vertex_kind::gpu; };
  if (std::none_of(g.pairs.begin(), g.pairs.end(), [&](const pair_figure& p) {
        return p.from != p.to && is_gpu(p.from) && is_gpu(p.to) && p.write.known();
      }))
    return "";
  const std::vector<vertex_id> gpus = g.gpus();
  const path_finder find(g);
  const auto cell = [](const std::string& text) { return format_text("%-7s", text.c_str()); };
  std::string text = "\nGB/s from row to column: as measured or told, else nominal\n" + cell("");
  for (std::size_t i = 0; i < gpus.size(); ++i) text += cell(format_text("GPU%zu", i));
  text += "\n";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    text += cell(format_text("GPU%zu", i));
    for (vertex_id to : gpus) {
      const figure rate = find.find(gpus[i], to).write;
      text += cell(to == gpus[i] ? "X" : rate.known() ? format_text("%.1f", rate.value) : "?");
    }
    text += "\n";
  }
  return text;
}

std::string topo_notes(const graph& g) {
  std::string text;
  for (const std::string& note : g.notes) text += "Note: " + printable(note) + "\n";
  return text;
}

std::string topo_hint(const std::vector<finding>& found) {
  std::string text;
  unsigned count = 0;
  for (const finding& f : found) {
    if (f.how_much == weight::unknown) continue;
    text += (count++ ? "; " : "") + f.title;
  }
  return count == 0 ? text : "Found: " + printable(text) + ". --advise says what was seen and what to do.\n";
}

std::string topo_advice(const std::vector<finding>& found) {
  if (found.empty())
    return "Nothing to complain about, as far as can be seen without measuring (--probe measures).\n";
  std::string text;
  unsigned number = 0;
  for (const finding& f : found) {
    const char* how_much = f.how_much == weight::costly  ? "costly"
                           : f.how_much == weight::worth ? "worth a look"
                                                         : "not known";
    text += format_text("%u. %s (%s)\n", ++number, f.title.c_str(), how_much);
    text += "   Seen: " + printable(f.evidence) + "\n   Do:   ";
    // Commands to copy have lines of their own.
    for (std::size_t begin = 0; begin <= f.fix.size();) {
      const std::size_t end = std::min(f.fix.find('\n', begin), f.fix.size());
      text += (begin ? "         " : "") + printable(f.fix.substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
  }
  return text;
}

std::string topo_dot(const graph& g) {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (char c : printable(text)) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + "\"";
  };
  const auto style_of = [](vertex_kind kind) {
    switch (kind) {
      case vertex_kind::gpu:
        return "shape=box, style=filled, fillcolor=\"#76b900\"";
      case vertex_kind::nic:
        return "shape=box, style=filled, fillcolor=\"#9ecae1\"";
      case vertex_kind::pci_switch:
      case vertex_kind::nv_switch:
        return "shape=hexagon";
      case vertex_kind::numa_node:
      case vertex_kind::socket:
        return "shape=box, style=rounded";
      default:
        return "shape=ellipse";
    }
  };
  std::string text =
      "graph machine {\n  rankdir=TB;\n  node [fontname=\"sans-serif\", fontsize=10];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n";
  for (vertex_id v = 0; v < g.vertices.size(); ++v) {
    std::string label = g.vertices[v].name;
    if (g.vertices[v].pci && label.find(name_of(*g.vertices[v].pci)) == label.npos)
      label += " " + name_of(*g.vertices[v].pci);
    text += format_text("  v%u [label=%s, %s];\n", v, quoted(label).c_str(), style_of(g.vertices[v].kind));
  }
  for (std::uint32_t e = 0; e < g.edges.size(); ++e) {
    const edge& link = g.edges[e];
    if (link.reverse < e) continue;
    std::string label = link.write.known() ? shown_capacity(link.write) : "";
    if (link.kind == edge_kind::nvlink) label = format_text("NV%u ", link.links) + label;
    const bool upwards = g.vertices[link.to].kind == vertex_kind::socket && link.kind == edge_kind::internal;
    const char* style = link.kind == edge_kind::nvlink        ? ", color=\"#76b900\", penwidth=2, constraint=false"
                        : link.kind == edge_kind::socket_link ? ", style=dashed, constraint=false"
                                                              : "";
    text += format_text("  v%u -- v%u [label=%s%s];\n", upwards ? link.to : link.from,
                        upwards ? link.from : link.to, quoted(label).c_str(), style);
  }
  return text + "}\n";
}

}  // namespace xyl
