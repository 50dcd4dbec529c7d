// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer: any bytes as a machine that is planned on, advised about and printed, as an override of a machine, and
// as a plan file. What is accepted must give a plan, with times that are numbers, and never the end of the process:
// rank 0 does all of it before anybody can communicate.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tools/topo_text.hpp"
#include "topo/advice.hpp"
#include "topo/describe.hpp"
#include "topo/export.hpp"
#include "topo/import.hpp"
#include "topo/override.hpp"
#include "topo/plan_file.hpp"
#include "topo/planner.hpp"

using namespace xyl::topo;

namespace {

void check_plan(const graph& g, plan_request request) {
  plan p;
  if (!make_plan(g, request, p).ok()) {
    // A prescription may not fit; a machine always does.
    if (!request.override_with) std::abort();
    return;
  }
  for (const collective_plan& c : p.collectives)
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1} << 20, UINT64_MAX})
      if (const double us = c.predicted_us(bytes); std::isnan(us) || us < 0) std::abort();
  if (describe_text(p).empty()) std::abort();
}

void use(const graph& g, const std::optional<plan_override>& prescribed) {
  // What is quadratic or worse in the number of GPUs is bounded elsewhere; here it would only be slow.
  if (g.gpus().empty() || g.gpus().size() > 8 || g.vertices.size() > 100) return;
  plan_request request = one_rank_per_gpu(g);
  check_plan(g, request);
  request.host_staged = true;
  check_plan(g, request);
  request.host_staged = false;
  request.override_with = prescribed;
  check_plan(g, request);
  (void)find_advice(g, {});
  if (xyl::topo_tree(g).empty() || xyl::topo_matrix(g).empty() || xyl::topo_dot(g).empty()) std::abort();
}

graph three_gpus() {
  graph g;
  const std::string text =
      "<system><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x060400\">"
      "<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/>"
      "<pci busid=\"0000:03:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"/></pci></cpu>"
      "<cpu numaid=\"1\"><pci busid=\"0000:81:00.0\" class=\"0x030200\"/></cpu></system>";
  if (!import_text(text, g).ok() || g.gpus().size() != 3) std::abort();
  return g;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::optional<plan_override> prescribed;
  if (plan_override read; read_plan_text(text, read).ok()) prescribed = std::move(read);
  graph g;
  if (import_text(text, g).ok()) use(g, prescribed);
  static const graph machine = three_gpus();
  graph changed = machine;
  if (apply_override(text, changed).ok() || prescribed) use(changed, prescribed);
  return 0;
}
