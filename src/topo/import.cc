// SPDX-License-Identifier: BSD-3-Clause
// The first character that is not blank tells JSON from XML; the check tells the kinds of XML apart.
#include "topo/import.hpp"

#include <string>
#include <utility>

#include "topo/export.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/nccl_reader.hpp"
#include "topo/xml.hpp"
#include "topo/xml_check.hpp"

namespace xyl::topo {
namespace {

// The largest machines have 72. What is quadratic in GPUs stays bearable for whatever a file claims.
constexpr std::size_t most_gpus = 1024;

result read_any(std::string_view text, graph& out) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return error(xylInvalidArgument, "it is empty");
  if (text[begin] == '{') return import_json(text, out);
  const xml_limits limits;
  xml_format format{};
  std::string rendering;
  XYL_TRY(check_xml(text, limits, format, rendering));
  switch (format) {
    case xml_format::nccl:
      return import_nccl(text, limits, out);
    case xml_format::hwloc3:
      return refuse_hwloc3();
    case xml_format::hwloc2:
      break;
  }
  return import_hwloc(rendering, out);
}

}  // namespace

result import_text(std::string_view text, graph& out) {
  graph g;
  XYL_TRY(read_any(text, g));
  if (const std::size_t gpus = g.gpus().size(); gpus > most_gpus)
    return error(xylInvalidArgument, "%zu GPUs in one machine; at most %zu are accepted", gpus, most_gpus);
  out = std::move(g);
  return {};
}

result import_file(const char* path, graph& out) {
  std::string text;
  XYL_TRY(read_small_file(path, xml_limits().bytes, text));
  const result read = import_text(text, out);
  return read.ok() ? result() : error(read.code(), "%s: %s", path, read.text().c_str());
}

}  // namespace xyl::topo
