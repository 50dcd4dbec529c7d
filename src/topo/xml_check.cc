// SPDX-License-Identifier: BSD-3-Clause
// One pass of read_xml. It rules out what would hurt a parser that believes the file: allocation by a claimed size
// (nbobjs squared, the highest bit of a mask or of an index), lengths that are not those of the text, identifiers
// that are not unique, objects where they cannot be.
#include "topo/xml_check.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "topo/pci_link.hpp"

namespace xyl::topo {
namespace {

constexpr std::uint64_t largest_index = 1 << 16;              // of a processor, core or NUMA node
constexpr std::uint64_t largest_matrix = 1024;                // objects of one distance matrix
constexpr std::size_t largest_mask = 9 * largest_index / 32;  // characters: eight digits and a comma for 32 bits

template <typename Names>
bool one_of(std::string_view text, const Names& names) {
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t n = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

class hwloc_check {
 public:
  result open(const xml_element& e, const xml_element* parent) {
    if (e.name == "object") return object(e, parent);
    if (e.name == "distances2" || e.name == "distances2hetero") return matrix(e);
    if (e.name == "info" && !(e.find("name") && e.find("value")))
      return error(xylInvalidArgument, "<info> needs a name and a value");
    return {};
  }

  // The whole text of an <indexes> or <u64values>.
  result number_list(std::string_view element, std::string_view text) {
    std::size_t& count = element == "indexes" ? indexes_ : values_;
    bool inside = false;
    for (char c : text) {
      const bool blank = c == ' ' || c == '\n';
      if (!blank && !isalnum(static_cast<unsigned char>(c)) && c != ':')
        return error(xylInvalidArgument, "'%s' in a list of numbers", shown({&c, 1}).c_str());
      count += !blank && !inside;
      inside = !blank;
    }
    return {};
  }

  result close(std::string_view name) {
    if (name != "distances2" && name != "distances2hetero") return {};
    if (indexes_ != matrix_ || values_ != matrix_ * matrix_)
      return error(xylInvalidArgument, "a matrix of %zu objects has %zu indexes and %zu values", matrix_, indexes_,
                   values_);
    return {};
  }

 private:
  result object(const xml_element& e, const xml_element* parent) {
    constexpr std::array types{"Machine",  "Package",  "Die",     "Core",     "PU",       "L1Cache",  "L2Cache",
                               "L3Cache",  "L4Cache",  "L5Cache", "L1iCache", "L2iCache", "L3iCache", "Group",
                               "NUMANode", "MemCache", "Bridge",  "PCIDev",   "OSDev",    "Misc"};
    const std::string_view type = e.find("type").value_or("");
    if (!one_of(type, types))
      return error(xylInvalidArgument, "object type \"%s\" is not known", shown(type).c_str());
    const bool root = parent && parent->name == "topology";
    if (root != (type == "Machine"))
      return error(xylInvalidArgument, "a Machine is the outermost object and nothing else is; this is a %s",
                   std::string(type).c_str());
    if (root && std::exchange(has_machine_, true)) return error(xylInvalidArgument, "a second Machine");
    if (parent && parent->name == "object") XYL_TRY(placed(type, parent->find("type").value_or("")));
    XYL_TRY(needed(e, type));
    XYL_TRY(unique(e, "gp_index", ids_));
    if (type == "PU") XYL_TRY(unique(e, "os_index", processors_));
    if (type == "NUMANode") XYL_TRY(unique(e, "os_index", numa_nodes_));
    const bool io = one_of(type, std::array{"Bridge", "PCIDev", "OSDev", "Misc"});
    for (const xml_attribute& a : e.attributes) {
      if (a.name.ends_with("set")) XYL_TRY(mask(a));
      if (a.name == "os_index" && !io && whole_number(a.value).value_or(largest_index + 1) > largest_index &&
          a.value != "4294967295")
        return error(xylInvalidArgument, "os_index %s; at most %llu is accepted", shown(a.value).c_str(),
                     static_cast<unsigned long long>(largest_index));
      if (a.name == "pci_busid" && !parse_pci_address(a.value))
        return error(xylInvalidArgument, "pci_busid \"%s\" is not a PCI address", shown(a.value).c_str());
      if (a.name == "depth" && whole_number(a.value).value_or(1000) > 256)
        return error(xylInvalidArgument, "depth \"%s\"", shown(a.value).c_str());
    }
    return {};
  }

  // I/O objects have no children but I/O objects; a processor and a NUMA node hold nothing but those.
  static result placed(std::string_view type, std::string_view parent) {
    constexpr std::array io{"Bridge", "PCIDev", "OSDev", "Misc"};
    const bool is_io = one_of(type, io);
    const bool fits = parent == "Misc"       ? type == "Misc"
                      : parent == "OSDev"    ? is_io && type != "Bridge" && type != "PCIDev"
                      : parent == "PCIDev"   ? is_io && type != "Bridge" && type != "PCIDev"
                      : parent == "Bridge"   ? is_io
                      : parent == "PU"       ? is_io
                      : parent == "NUMANode" ? type == "Misc"
                      : parent == "MemCache" ? type == "MemCache" || type == "NUMANode"
                                             : true;
    if (fits) return {};
    return error(xylInvalidArgument, "a %s cannot be inside a %s", std::string(type).c_str(),
                 std::string(parent).c_str());
  }

  static result needed(const xml_element& e, std::string_view type) {
    const bool io = one_of(type, std::array{"Bridge", "PCIDev", "OSDev", "Misc"});
    const auto need = [&](std::string_view name) {
      return e.find(name)
                 ? result()
                 : error(xylInvalidArgument, "a %s needs %s", std::string(type).c_str(), std::string(name).c_str());
    };
    if (!io)
      for (const char* name : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) XYL_TRY(need(name));
    if (type == "PU" || type == "NUMANode") XYL_TRY(need("os_index"));
    if (type == "PCIDev")
      for (const char* name : {"pci_busid", "pci_type", "pci_link_speed"}) XYL_TRY(need(name));
    if (type == "OSDev") XYL_TRY(need("osdev_type"));
    if (type != "Bridge") return {};
    for (const char* name : {"bridge_type", "depth", "bridge_pci"}) XYL_TRY(need(name));
    if (e.find("bridge_type") == "1-1")
      for (const char* name : {"pci_busid", "pci_type", "pci_link_speed"}) XYL_TRY(need(name));
    return {};
  }

  // Groups as hwloc writes them, "0x" and digits, or nothing for zeros; but never at the beginning: its parser,
  // which does not count that one, ends the process by an assertion.
  static bool is_mask(std::string_view text) {
    for (bool is_first = true; !text.empty(); is_first = false) {
      const std::string_view group = text.substr(0, text.find(','));
      text.remove_prefix(std::min(text.size(), group.size() + 1));
      if (group.empty() && !is_first) continue;
      const std::string_view digits = group.substr(std::min<std::size_t>(2, group.size()));
      const auto is_digit = [](unsigned char c) { return isxdigit(c) != 0; };
      if (!group.starts_with("0x") || digits.empty() || digits.size() > 16 ||
          !std::all_of(digits.begin(), digits.end(), is_digit))
        return false;
    }
    return true;
  }

  static result mask(const xml_attribute& a) {
    if (a.value.size() > largest_mask)
      return error(xylInvalidArgument, "%s has %zu characters; at most %zu are accepted", shown(a.name).c_str(),
                   a.value.size(), largest_mask);
    if (a.value.find("0xf...f") != std::string_view::npos)
      return error(xylInvalidArgument, "%s is infinite", shown(a.name).c_str());
    if (!is_mask(a.value))
      return error(xylInvalidArgument, "%s \"%s\" is not a bit mask", shown(a.name).c_str(),
                   shown(a.value).c_str());
    return {};
  }

  using seen = std::unordered_map<std::uint64_t, unsigned long>;  // number -> line
  static result unique(const xml_element& e, std::string_view name, seen& numbers) {
    const std::optional<std::string_view> text = e.find(name);
    if (!text) return {};
    const std::optional<std::uint64_t> number = whole_number(*text);
    if (!number)
      return error(xylInvalidArgument, "%s \"%s\" is not a number", std::string(name).c_str(),
                   shown(*text).c_str());
    const auto [at, first] = numbers.emplace(*number, e.line);
    if (first) return {};
    return error(xylInvalidArgument, "%s %s is already that of line %lu", std::string(name).c_str(),
                 shown(*text).c_str(), at->second);
  }

  result matrix(const xml_element& e) {
    const std::optional<std::uint64_t> count = whole_number(e.find("nbobjs").value_or(""));
    if (!count || *count == 0 || *count > largest_matrix)
      return error(xylInvalidArgument, "a distance matrix of \"%s\" objects; 1 to %llu are accepted",
                   shown(e.find("nbobjs").value_or("")).c_str(), static_cast<unsigned long long>(largest_matrix));
    matrix_ = *count;
    indexes_ = values_ = 0;
    return {};
  }

  seen ids_, processors_, numa_nodes_;
  bool has_machine_ = false;
  std::size_t matrix_ = 0, indexes_ = 0, values_ = 0;
};

// Keeps the elements that are open, with their attributes: a parent's type decides what may be in it.
struct open_element {
  std::string name;
  std::string type;
  bool kept = true;
  bool has_children = false;
};

class checker final : public xml_handler {
 public:
  checker(xml_format& format, std::string& rendering) : format_(format), rendering_(rendering) {}

  result open(const xml_element& e) override {
    if (e.depth == 0) XYL_TRY(root(e));
    if (format_ != xml_format::hwloc2) return {};
    const xml_attribute type{"type", e.depth ? std::string_view(open_.back().type) : std::string_view()};
    const xml_element parent{.name = e.depth ? std::string_view(open_.back().name) : std::string_view(),
                             .attributes = {&type, 1},
                             .depth = 0,
                             .line = 0};
    const bool kept = (e.depth == 0 || open_.back().kept) && is_known(e.name, parent.name);
    if (kept) {
      XYL_TRY(hwloc_.open(e, e.depth ? &parent : nullptr));
      if (e.depth) begin_child();
      render(e);
    }
    open_.push_back({std::string(e.name), std::string(e.find("type").value_or("")), kept, false});
    return {};
  }

  result close(std::string_view name) override {
    if (format_ != xml_format::hwloc2) return {};
    const open_element last = std::move(open_.back());
    open_.pop_back();
    if (!last.kept) return {};
    if (is_list(name)) {
      XYL_TRY(hwloc_.number_list(name, list_));
      // hwloc takes the length that it is told; it is told what there is.
      rendering_.append(" length=\"").append(std::to_string(list_.size())).append("\">").append(list_);
      rendering_.append("</").append(name).append(">\n");
      list_.clear();
      return {};
    }
    XYL_TRY(hwloc_.close(name));
    if (last.has_children)
      rendering_.append("</").append(name).append(">\n");
    else
      rendering_.append("/>\n");
    return {};
  }

  result text(std::string_view characters) override {
    if (format_ == xml_format::hwloc2 && open_.back().kept && is_list(open_.back().name)) list_.append(characters);
    return {};
  }

 private:
  result root(const xml_element& e) {
    if (e.name == "system") {
      format_ = xml_format::nccl;
      return {};
    }
    if (e.name == "topology" || e.name == "root") {
      const std::string_view version = e.find("version").value_or("1");
      if (version.starts_with("2.")) {
        format_ = xml_format::hwloc2;
        rendering_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
        return {};
      }
      if (version.starts_with("3.")) {
        format_ = xml_format::hwloc3;
        return {};
      }
      return error(xylInvalidArgument,
                   "hwloc XML of version \"%s\"; version 2 can be read, which `lstopo file.xml` of hwloc 2 writes",
                   shown(version).c_str());
    }
    return error(xylInvalidArgument,
                 "<%s> begins neither an hwloc XML (<topology>) nor an NCCL topology file (<system>)",
                 shown(e.name).c_str());
  }

  // What hwloc needs to say here. Everything else (page types, memory attributes, support flags, user data, CPU
  // kinds) is not handed on: what is not read cannot do harm.
  static bool is_list(std::string_view name) { return name == "indexes" || name == "u64values"; }
  static bool is_known(std::string_view name, std::string_view parent) {
    if (name == "topology") return parent.empty();
    if (name == "object" || name == "info") return parent == "object" || (name == "object" && parent == "topology");
    if (name == "distances2" || name == "distances2hetero") return parent == "topology";
    if (is_list(name)) return parent.starts_with("distances2");
    return false;
  }

  void begin_child() {
    if (!open_.back().has_children) rendering_.append(">\n");
    open_.back().has_children = true;
  }

  void render(const xml_element& e) {
    rendering_.append("<").append(e.name);
    if (is_list(e.name)) return;
    for (const xml_attribute& a : e.attributes) {
      rendering_.append(" ").append(a.name).append("=\"");
      for (char c : a.value) {
        if (c == '"')
          rendering_.append("&quot;");
        else if (c == '&')
          rendering_.append("&amp;");
        else if (c == '<')
          rendering_.append("&lt;");
        else if (c == '>')
          rendering_.append("&gt;");
        else
          rendering_.push_back(c >= ' ' ? c : ' ');
      }
      rendering_.push_back('"');
    }
  }

  xml_format& format_;
  std::string& rendering_;
  hwloc_check hwloc_;
  std::string list_;
  std::vector<open_element> open_;
};

}  // namespace

result check_xml(std::string_view text, const xml_limits& limits, xml_format& format, std::string& rendering) {
  rendering.clear();
  checker check(format, rendering);
  return read_xml(text, limits, check);
}

}  // namespace xyl::topo
